"""The curves of the chosen layer: gradient over weight, and update over weight, on one logarithmic axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from textual.app import ComposeResult

from ...run.process import ProcessState
from ...text import dotted, number
from ..raster.ink import line
from ..raster.spec import ChartSpec, Level, Marker, Trace
from ..view import StepView
from ..workspace import Look
from .chart import Chart
from .layers import HEALTHY
from .pane import Pane, Value, value

FIELDS = {"ratio": "gradient", "update_ratio": "update"}
"""What stands in the title of each; both are over the norm of the weight."""


def layer_spec(
    process: ProcessState, view: StepView, columns: int, layers: Sequence[int], markers: Sequence[Marker] = ()
) -> ChartSpec:
    """Mean and range over `layers` of both ratios, over the steps."""
    traces = []
    for place, (field, label) in enumerate(FIELDS.items()):
        matrix = process.layers.get(field)
        if matrix is None or not layers or max(layers) >= matrix.layers:
            continue
        window = matrix.window(*view.query, columns)
        rows = window.mean[list(layers)].astype(np.float64)
        bad = np.asarray(window.nonfinite)[list(layers)].sum(axis=0)
        there = np.isfinite(rows).any(axis=0) | (bad > 0)
        rows, x, bad = rows[:, there], window.x[there], bad[there]
        if not rows.size:
            continue
        filled = np.where(np.isfinite(rows), rows, np.nan)
        known = np.isfinite(filled).any(axis=0)
        mean, low, high = (np.full(len(x), np.nan) for _ in range(3))
        mean[known] = np.nanmean(filled[:, known], axis=0)
        low[known], high[known] = np.nanmin(filled[:, known], axis=0), np.nanmax(filled[:, known], axis=0)
        traces.append(Trace(x, mean, low, high, nonfinite=bad.astype(np.int64), label=label, ink=line(2 * place)))
    return ChartSpec(
        traces=tuple(traces),
        x_range=view.window,
        log=True,
        levels=(Level(*HEALTHY),) if traces else (),
        cursor_x=view.cursor,
        markers=tuple(markers),
        legend=False,
        empty="no statistics of this layer yet",
    )


class LayerCurvesPane(Pane):
    """The chosen layer over the steps."""

    NAME = "layer"
    HELP = "Gradient and update over the weight's norm, of the chosen row; the shaded range is healthy for a gradient."

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.chart = Chart()
        self.spec = ChartSpec()
        self.label, self.chosen = "", tuple[int, ...]()

    def body(self) -> ComposeResult:
        """The chart."""
        yield self.chart

    def gather(self, look: Look) -> None:
        """Both ratios in view."""
        self.spec = layer_spec(look.process, look.view, self.chart.dot_columns or 2, self.chosen, tuple(look.markers))

    def present(self) -> None:
        """The chart, with the layer's name and the newest values in the title."""
        self.chart.show(self.spec)
        told: list[Value] = []
        for trace in self.spec.traces:
            known = trace.y[np.isfinite(trace.y)]
            told.append(value(number(float(known[-1])) if len(known) else "–", key=trace.label, key_ink=trace.ink))
        self.title_line.label = f"{self.NAME} {dotted(self.label, 26)}".strip()
        self.head(told, "over weight")
