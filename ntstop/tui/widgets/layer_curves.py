"""The curves of the chosen layer: both ratios in one chart, or large each thing that is measured in one of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from textual.app import ComposeResult

from ...text import count, dotted
from .. import bindings
from ..raster.ink import Ink, line
from ..raster.spec import ChartSpec, Level, Trace
from ..reading import Reading
from ..workspace import Look
from .chart import Chart
from .grid import Cell, ChartGrid
from .layer_table import LayerLine, layer_line, told_text
from .layers import HEALTHY
from .pane import Pane, Value, dated

FIELDS = {"ratio": "grad", "update_ratio": "update"}
"""The curves of the one chart, with what stands in the title of each; both are over the norm of the weight."""
NOTE = "over weight norm"
HEALTHY_BAND = Level(*HEALTHY, label="healthy gradient")


@dataclass(frozen=True, slots=True)
class Measured:
    """One chart of the large view: a field of the layers, and its title."""

    field: str
    title: str
    is_ratio: bool = False
    """Over decades, however the key of the axis stands."""
    is_share: bool = False


LARGE = (
    Measured("ratio", "gradient / weight", is_ratio=True),
    Measured("update_ratio", "update / weight", is_ratio=True),
    Measured("grad_norm", "gradient norm"),
    Measured("param_norm", "weight norm"),
    Measured("grad_zero", "zero gradients", is_share=True),
    Measured("unchanged", "unchanged weights", is_share=True),
)
"""The most looked for first: a small terminal has room for two."""


def layer_trace(look: Look, field: str, columns: int, layers: Sequence[int], label: str, ink: Ink) -> Trace | None:
    """Mean and range of `field` over `layers`, over the steps; None where it was not measured."""
    matrix = look.process.layers.get(field)
    if matrix is None or not layers or max(layers) >= matrix.layers:
        return None
    window = look.layers(field, *look.view.query, columns)
    rows = window.mean[list(layers)].astype(np.float64)
    bad = np.asarray(window.nonfinite)[list(layers)].sum(axis=0)
    there = np.isfinite(rows).any(axis=0) | (bad > 0)
    rows, x, bad, segment = rows[:, there], window.x[there], bad[there], window.segment[there]
    if not rows.size:
        return None
    filled = np.where(np.isfinite(rows), rows, np.nan)
    known = np.isfinite(filled).any(axis=0)
    mean, low, high = (np.full(len(x), np.nan) for _ in range(3))
    mean[known] = np.nanmean(filled[:, known], axis=0)
    low[known], high[known] = np.nanmin(filled[:, known], axis=0), np.nanmax(filled[:, known], axis=0)
    return Trace(x, mean, low, high, nonfinite=bad.astype(np.int64), segment=segment, label=label, ink=ink)


def layer_spec(look: Look, columns: int, layers: Sequence[int]) -> ChartSpec:
    """Both ratios over the steps, on a logarithmic axis."""
    parts = enumerate(FIELDS.items())
    found = [layer_trace(look, field, columns, layers, label, line(2 * place)) for place, (field, label) in parts]
    return _chart(look, [trace for trace in found if trace is not None], log=True, levels=(HEALTHY_BAND,))


def _chart(look: Look, traces: Sequence[Trace], *, log: bool, levels: tuple[Level, ...] = ()) -> ChartSpec:
    return ChartSpec(
        traces=tuple(traces),
        x_range=look.view.window,
        log=log,
        levels=levels if traces else (),
        cursor_x=look.view.cursor,
        markers=tuple(look.markers),
        spans=tuple(look.spans),
        legend=False,
        empty="no statistics of this layer yet",
    )


def layer_cell(look: Look, told: Measured, columns: int, layers: Sequence[int], row: LayerLine | None) -> Cell:
    """One chart of the large view, with the value of the row in its title."""
    trace = layer_trace(look, told.field, columns, layers, told.title, Ink.LINE_0)
    traces = [] if trace is None else [_percent(trace) if told.is_share else trace]
    levels = (replace(HEALTHY_BAND, label="healthy"),) if told.field == "ratio" else ()
    log = not told.is_share and (told.is_ratio or look.view.log)
    spec = _chart(look, traces, log=log, levels=levels)
    if told.is_share:
        spec = replace(spec, y_range=(0.0, 100.0))
    read = look.layer_reading(told.field, np.nan if row is None else getattr(row, told.field))
    return Cell(told.title, spec, [dated(read, *_told(row, told.field))], "%" if told.is_share else "")


def _told(row: LayerLine | None, field: str) -> tuple[str, Ink]:
    """What the title says of a field, and how."""
    if row is None:
        return "–", Ink.STRONG
    return told_text(row, field), Ink.NONFINITE if field in row.nonfinite else Ink.STRONG


def _percent(trace: Trace) -> Trace:
    low, high = (None if edge is None else edge * 100 for edge in (trace.lo, trace.hi))
    return replace(trace, y=trace.y * 100, lo=low, hi=high)


class LayerCurvesPane(Pane):
    """The chosen layer over the steps."""

    NAME = "layer"
    HELP = (
        "The chosen row over the steps: gradient and update, each over the norm of the weight. The shaded range is "
        "healthy for a gradient. Large, each thing that is measured has a chart of its own. Several layers in a row "
        "are a line through their mean and a band around all of them. In the title: the newest sample, or that at the "
        "cursor."
    )
    BINDINGS: ClassVar = bindings.LAYER_CURVES

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.chart = Chart()
        self.grid = ChartGrid()
        self.spec = ChartSpec()
        self.cells: list[Cell] = []
        self.row: LayerLine | None = None
        self.readings: dict[str, Reading] = {}
        self.label, self.chosen = "", tuple[int, ...]()
        self.is_large = False
        self._step: float | None = None

    def body(self) -> ComposeResult:
        """The chart, or the charts."""
        self.grid.display = False
        yield self.chart
        yield self.grid

    @property
    def dot_columns(self) -> int:
        """Columns of dots of one chart."""
        return self.grid.dot_columns(0, self.grid.geometry) if self.is_large else self.chart.dot_columns

    def enlarge(self, is_large: bool) -> None:
        """One chart, or one for each thing that is measured."""
        self.is_large = is_large
        self.chart.display, self.grid.display = not is_large, is_large

    def gather(self, look: Look) -> None:
        """Both ratios in view, or all there is; and the row as the table has it."""
        self._step = look.view.cursor
        self.row = layer_line(look, self.label, self.chosen) if self.chosen else None
        if self.is_large:
            there = [told for told in LARGE if told.field in look.process.layers]
            shape = self.grid.room(len(there))
            columns = (self.grid.dot_columns(place, shape) or 2 for place in range(len(there)))
            cells = zip(there, columns, strict=True)
            self.cells = [layer_cell(look, told, room, self.chosen, self.row) for told, room in cells]
        else:
            self.spec = layer_spec(look, self.chart.dot_columns or 2, self.chosen)
            self.readings = {field: look.layer_reading(field, getattr(self.row, field, np.nan)) for field in FIELDS}

    def present(self) -> None:
        """The charts, with the layer's name and its values in the title."""
        told: list[Value] = []
        note = "" if self._step is None else f"step {count(self._step)}"
        if self.is_large:
            shape = self.grid.room(len(self.cells))
            self.grid.show(self.cells, shape)
            if len(shape.boxes) < len(self.cells):
                more = f"room for {len(shape.boxes)} of {len(self.cells)}"
                note = f"{note}, {more}" if note else more
        else:
            self.chart.show(self.spec)
            # The step stands at the axis.
            note = NOTE
            inks = {trace.label: trace.ink for trace in self.spec.traces}
            for field, read in self.readings.items() if self.row else ():
                if (label := FIELDS[field]) in inks:
                    told.append(dated(read, *_told(self.row, field), before=((label, inks[label]),)))
        self.called = dotted(self.label, 26) or self.NAME
        self.head(told, note)
