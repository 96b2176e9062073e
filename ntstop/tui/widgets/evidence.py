"""The curve that the chosen finding rests on, with its steps shaded."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
from textual.app import ComposeResult

from ...diagnosis.finding import Finding
from ...run.names import main_curve
from ...run.units import scale_of, told
from ..raster.ink import Ink
from ..raster.spec import ChartSpec, Span, Trace
from ..reading import Reading, reading_on
from ..traces import chart_of, frame_of, named_in, scaled, trace_of
from ..workspace import Look
from .chart import Chart
from .layer_curves import layer_trace
from .pane import Pane, dated


def series_of(finding: Finding, known: Collection[str]) -> str | None:
    """Of the curves that are `known` the first that the evidence names, else where it is; None where it is none."""
    return named_in([*(item.series for item in finding.evidence), finding.where], known)


FIELDS = {"grad_norm": "gradient norm", "param_norm": "weight norm", "update_ratio": "update over weight norm"}
"""What is measured of layers, in words."""


class EvidencePane(Pane):
    """Follows the finding that the screen sets."""

    NAME = "evidence"
    HELP = (
        "The curve that the chosen finding rests on, of the layers that it is in where it is in some; its steps are "
        "shaded. Where it rests on none, the loss."
    )

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.finding: Finding | None = None
        self.span = Span(0.0, 0.0)
        self.chart = Chart()
        self.spec = ChartSpec()
        self.curve, self.unit, self.whose = "", "", ""
        self.at = Reading()

    def body(self) -> ComposeResult:
        """The chart."""
        yield self.chart

    def gather(self, look: Look) -> None:
        """The curve of the finding that the screen has set, of the rank that it is in, and its value at the cursor."""
        finding, process = self.finding, look.process
        self.curve, self.unit, self.whose, self.at = "", "", "", Reading()
        self.spec = ChartSpec(empty="no finding is chosen", x_range=look.view.window)
        if finding is None:
            return
        if (trace := self._of_layers(finding, look)) is not None:
            self.curve, self.at = f"{trace.label}, {finding.where}", reading_on(trace, look.view.cursor)
            self.spec = replace(chart_of(frame_of(look, "step"), [trace], log=look.view.log), spans=(self.span,))
            return
        other = look.session.state.ranks.get(finding.rank)
        if other is not None and series_of(finding, other.series):
            process = other
            self.whose = (
                f"rank {finding.rank}" if finding.rank is not None and len(look.session.state.ranks) > 1 else ""
            )
        self.curve = series_of(finding, process.series) or main_curve(process.series) or ""
        if not self.curve:
            return
        frame, columns = frame_of(look, "step"), self.chart.dot_columns or max(2 * self.size.width, 2)
        lane = replace(frame.lanes[0], process=process)
        traces = trace_of(frame, lane, self.curve, columns, look.view.smoothing, Ink.LINE_0, band=True)
        tops = [float(np.abs(trace.y[np.isfinite(trace.y)]).max(initial=0.0)) for trace in traces]
        scale = scale_of(self.curve, max(tops, default=0.0))
        self.unit, self.at = scale.unit, look.reading(self.curve, process)
        spec = chart_of(frame, scaled(traces, scale), log=look.view.log)
        self.spec = replace(spec, spans=(self.span,))

    def _of_layers(self, finding: Finding, look: Look) -> Trace | None:
        """The curve of the layers that the finding is in; None where it is not in any, or in those of another rank."""
        process, where = look.process, finding.where
        if finding.rank is not None and look.session.state.ranks.get(finding.rank) is not process:
            return None
        inside = [at for at, name in enumerate(process.layer_names) if f"{name}.".startswith(f"{where}.")]
        field = next((item.series for item in finding.evidence if item.series in process.layers), None) or "grad_norm"
        columns = self.chart.dot_columns or max(2 * self.size.width, 2)
        label = FIELDS.get(field, field)
        return layer_trace(look, field, columns, inside, label, Ink.LINE_0) if where and inside else None

    def present(self) -> None:
        """The chart, and the value in the title."""
        self.chart.show(self.spec)
        values = [dated(self.at, told(self.curve, self.at.y))] if self.at.y is not None else []
        self.head(values, " ".join(part for part in (self.whose, self.curve, self.unit) if part))
