"""The loss: a smoothed line over its min–max band, and what was measured on other data as points."""

from __future__ import annotations

import math
from dataclasses import replace

from textual.app import ComposeResult

from ...curves.buckets import Buckets
from ...curves.smooth import SHARES, smoothed
from ...run.names import evaluation_losses, train_losses
from ...run.process import ProcessState
from ...text import clip, count, number
from ..colours import ColourBook
from ..raster.ink import Ink, line
from ..raster.labels import mark_of
from ..raster.legend import value_at
from ..raster.spec import ChartSpec, Glyphs, Trace
from ..reading import Reading
from ..styles.paint import glyphs_of
from ..traces import chart_of, frame_of, reading_in, trace_of
from ..view import StepView
from ..workspace import Look
from .chart import Chart
from .pane import Name, Pane, Value, dated, is_ascii


def loss_spec(look: Look, columns: int) -> ChartSpec:
    """What the loss chart shows, in about `columns` columns of dots."""
    series, view = look.process.series, look.view
    left, right = view.window
    _, end = view.query
    traces: list[Trace] = []
    for name in train_losses(series):
        # A little more than is seen, so that the moving average has found its level at the left edge.
        margin = SHARES[view.smoothing] * (right - left)
        buckets = look.window(name, left - margin, end, columns, edges=True)
        traces.append(_smoothed(buckets, view, name, line(2 * len(traces)), left, right))
    for index, name in enumerate(evaluation_losses(series)):
        points = look.window(name, left, end, columns)
        ink = line(2 * index + 1)
        traces.append(Trace(points.x, points.last, nonfinite=points.nonfinite, label=name, ink=ink, kind="points"))
    return ChartSpec(
        traces=tuple(traces),
        x_range=(left, right),
        log=view.log,
        markers=tuple(look.markers),
        spans=tuple(look.spans),
        cursor_x=view.cursor,
        empty="no loss measured yet",
        legend=False,
    )


def compared_spec(look: Look, book: ColourBook, columns: int, glyphs: Glyphs) -> ChartSpec:
    """The training losses of several runs over each other, each in the colour and with the sign of its run."""
    frame = frame_of(look, "step")
    traces: list[Trace] = []
    for lane in frame.lanes:
        name = next(iter(train_losses(lane.process.series)), "")
        place = book.of(lane.shown.name)
        found = trace_of(frame, lane, name, columns, look.view.smoothing, line(place), band=False)
        traces += [replace(trace, mark=mark_of(place, glyphs)) for trace in found if trace.kind == "line"]
    return chart_of(frame, traces, log=look.view.log)


def compared_readings(look: Look) -> list[Reading]:
    """What each of these curves has at the cursor, else last, as it was measured."""
    frame = frame_of(look, "step")
    lanes = ((lane, next(iter(train_losses(lane.process.series)), None)) for lane in frame.lanes)
    return [reading_in(frame, lane, name) for lane, name in lanes if name is not None]


def _smoothed(buckets: Buckets, view: StepView, name: str, ink: Ink, left: float, right: float) -> Trace:
    y = smoothed(buckets, view.smoothing, right - left)
    return Trace(
        buckets.x, y, buckets.lo, buckets.hi, nonfinite=buckets.nonfinite, segment=buckets.segment, label=name, ink=ink
    )


class LossPane(Pane):
    """The loss over the steps."""

    NAME = "loss"
    OF_ALL_RUNS = True
    HELP = (
        "The loss at every optimizer step: a moving average over the band from the lowest to the highest value. The "
        "title tells the newest value, or that at the cursor, behind it @ and its step where that is an older one; "
        "avg is that of the line. Diamonds are losses on other data. A cross at the top is a NaN or Inf, where the "
        "line breaks. Runs that were opened together lie over each other, without their bands."
    )

    def __init__(self, book: ColourBook, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.book = book
        self.chart = Chart()
        self.spec = ChartSpec()
        self.measured: list[Reading] = []
        self.average: float | None = None
        self.note = self.far = ""

    def body(self) -> ComposeResult:
        """The chart."""
        yield self.chart

    def gather(self, look: Look) -> None:
        """The window of each curve; at the cursor the values as they were measured."""
        process, view = look.process, look.view
        columns, is_alone = self.chart.dot_columns or 2, len(look.runs) == 1
        spec = loss_spec(look, columns) if is_alone else compared_spec(look, self.book, columns, glyphs_of(self.app))
        self.spec = replace(spec, gutter=self.chart.spec.gutter)
        lines = [trace for trace in self.spec.traces if trace.kind == "line"]
        if is_alone:
            self.measured = [look.reading(trace.label) for trace in self.spec.traces]
            is_averaged = view.smoothing != "off" and bool(lines)
            self.average = value_at(lines[0], view.cursor) if is_averaged else None
        else:
            self.measured = compared_readings(look)
            self.average = None
        self.note = ", ".join((*_averaged(process), *_note(view, look.noted), *look.whose))
        self.far = self.how_far(view)

    def indent(self, gutter: int) -> None:
        """From the next `gather` on, begin the step axis `gutter` cells from the left, as the pane below does."""
        self.chart.spec = replace(self.chart.spec, gutter=max(gutter, ChartSpec().gutter))

    def present(self) -> None:
        """The chart, and each curve's key and value in the title."""
        plain = is_ascii(self.app)
        keys = {"line": "--" if plain else "━━", "points": "@" if plain else "◆"}
        values: list[Value] = []
        behind: list[Value] = []
        for trace, read in zip(self.spec.traces, self.measured, strict=True):
            label = clip(trace.label, 20, left=True)
            key = ((trace.mark or keys[trace.kind], trace.ink), (Name(label), Ink.TEXT))
            values.append(dated(read, number(read.y, 6), before=key))
            if bad := 0 if trace.nonfinite is None else int(trace.nonfinite.sum()):
                whose = ((trace.mark, trace.ink),) if trace.mark else ()
                told = (*whose, (f"{'x' if plain else '✕'} {count(bad)}", Ink.NONFINITE))
                # Of several runs they stand behind all names, which there is to be room for first.
                (behind if trace.mark else values).append(told)
        if self.average is not None and math.isfinite(self.average):
            values.append((("avg", Ink.DIM), (number(self.average, 6), Ink.TEXT)))
        self.head(values + behind, self.note, self.far)
        self.chart.show(self.spec)


def _averaged(process: ProcessState) -> list[str]:
    """Said where a job accumulates gradients: many divide the loss of a micro-batch, and print the sum."""
    return [f"mean of {process.micro_batches} micro-batches"] if process.micro_batches > 1 else []


def _note(view: StepView, noted: str) -> list[str]:
    """What the keys have set, in words; `noted`: what somebody has noted at the cursor."""
    words = [] if view.cursor is None else [f"step {count(view.cursor)}"]
    words += [clip(f"“{noted}”", 30)] if noted else []
    words += ["log"] if view.log else []
    if view.smoothing != "light":
        words.append("raw" if view.smoothing == "off" else "strongly smoothed")
    if view.span is not None:
        words.append(f"{count(view.span)} steps")
    return words
