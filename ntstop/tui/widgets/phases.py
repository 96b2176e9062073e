"""Where the time of a step goes: the phases stacked over steps, the step time below."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from textual.app import ComposeResult

from ...curves.buckets import Buckets
from ...run.names import LOADER_QUEUE
from ...run.process import ProcessState
from ...run.units import scale_of
from ...text import duration
from ..raster.ink import Ink
from ..raster.spec import ChartSpec, Trace
from ..raster.stack import Part, StackSpec
from ..reading import Reading
from ..view import StepView
from ..workspace import Look
from .chart import Chart
from .pane import Dated, Pane, Value, dated
from .phasebar import PhaseBar

STEP_TIME = "step_time"
RECENT = 4096
"""Newest steps that are known one by one (the ring of a series)."""
FIRST = 2
"""Steps after which phases that were not measured will not be."""
RARE = 0.5
"""Share of the steps below which a phase is one that only some steps have."""


def stack_spec(look: Look, columns: int) -> StackSpec:
    """The phases in view, in about `columns` columns."""
    process, view = look.process, look.view
    left, right = view.window
    _, end = view.query
    steps = process.series.get(STEP_TIME)
    parts = []
    for name, series in process.phases.items():
        buckets = look.window(f"phase/{name}", left, end, columns)
        if steps is not None and series.count < RARE * steps.count:
            parts.append(_spread(name, buckets, look.window(STEP_TIME, left, end, columns)))
        else:
            parts.append(Part(name, buckets.x, buckets.mean))
    return StackSpec(
        parts=tuple(parts),
        x_range=(left, right),
        markers=tuple(look.markers),
        spans=tuple(look.spans),
        cursor_x=view.cursor,
        at_cursor={} if view.cursor is None else _phases_of(look, view.cursor),
        empty=_why_empty(process),
    )


def _phases_of(look: Look, step: float) -> dict[str, float]:
    """Seconds of each phase in one step; nothing of a step that was not timed, or is no longer known alone."""
    found = {name: look.window(f"phase/{name}", step, step, 1) for name in look.process.phases}
    return {
        name: float(bucket.mean[-1])
        for name, bucket in found.items()
        if len(bucket) and bucket.x_first[-1] == bucket.x_last[-1] == step and np.isfinite(bucket.mean[-1])
    }


def _spread(name: str, rare: Buckets, steps: Buckets) -> Part:
    """A phase that few steps have (an evaluation) as seconds a step, over all steps around it."""
    seconds = np.zeros(len(steps))
    if len(steps):
        place = np.clip(np.searchsorted(steps.x_first, rare.x, side="right") - 1, 0, len(steps) - 1)
        np.add.at(seconds, place, np.nan_to_num(rare.mean) * rare.count)
        seconds /= np.maximum(steps.count, 1)
    return Part(name, steps.x, seconds)


def recent_steps(process: ProcessState, view: StepView) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(step, seconds) of the timed steps in view that are still known one by one, oldest first."""
    series = process.series.get(STEP_TIME)
    if series is None:
        return np.empty(0), np.empty(0)
    x, seconds, _ = series.recent(RECENT)
    left, right = view.query
    known = (x >= left) & (x <= right) & np.isfinite(seconds)
    return x[known], seconds[known]


def time_spec(look: Look, columns: int) -> tuple[ChartSpec, str]:
    """The step time in view, its mean over its range; and the unit of its axis."""
    view = look.view
    left, right = view.window
    traces, unit = [], ""
    if STEP_TIME in look.process.series:
        b = look.window(STEP_TIME, *view.query, columns, edges=True)
        by, unit = scale_of(STEP_TIME, float(b.mean[np.isfinite(b.mean)].max(initial=0.0)))
        mean, low, high = b.mean / by, b.lo / by, b.hi / by
        traces.append(Trace(b.x, mean, low, high, nonfinite=b.nonfinite, segment=b.segment, ink=Ink.LINE_0))
    spec = ChartSpec(
        traces=tuple(traces),
        x_range=(left, right),
        log=True,
        cursor_x=view.cursor,
        legend=False,
        empty="no step times yet",
    )
    return spec, unit


def _queue(look: Look) -> list[Value]:
    """ "queue 3 of 8": batches ready, of those that the workers make ahead; nothing without workers."""
    read, most = look.reading(LOADER_QUEUE), look.process.loader_most
    if read.y is None or not np.isfinite(read.y):
        return []
    text = f"{read.y:.0f} of {most}" if most is not None and most >= read.y else f"{read.y:.0f}"
    return [dated(read, text, before=(("queue", Ink.TEXT),))]


def _why_empty(process: ProcessState) -> str:
    return "no phases measured" if process.steps > FIRST else "no step times yet"


class PhasesPane(Pane):
    """Phases and step time."""

    NAME = "step time"
    HELP = (
        "What a step waits for. data: the loader; fwd: from the batch to the loss; bwd: backward; opt: the optimizer; "
        "other: the rest of the loop. Shares are of all steps in view, or of the step at the cursor; below, the step "
        "time. The title tells the mean of the newest 64 steps, or that of the step at the cursor. queue: batches that "
        "the loader's workers have ready, of those that they make ahead; at 0 the step waits for them."
    )

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.bar, self.chart = PhaseBar(), Chart(classes="step-time")
        self.stack, self.spec, self.unit = StackSpec(), ChartSpec(), ""
        self.at = Reading()
        self.is_mean = False
        """It is the mean of the newest steps, not that of the cursor's."""
        self.clocks: dict[str, str] = {}
        self.whose: list[str] = []
        self.is_bare = False
        """No phase is measured, and none will be."""
        self.queue: list[Value] = []
        """Batches that the loader's workers have ready."""

    def body(self) -> ComposeResult:
        """The stack, and below it the curve, where there is room for it."""
        yield self.bar
        yield self.chart

    def _share_room(self) -> None:
        """The curve has rows of its own where there are enough, and all but one where no phase was measured."""
        self.chart.display = self.size.height >= 16 or self.is_bare
        self.bar.styles.height = 1 if self.is_bare else None
        self.chart.styles.height = "1fr" if self.is_bare else None

    def gather(self, look: Look) -> None:
        """The window of each phase, and the step time at the cursor or over the last steps."""
        process, view = look.process, look.view
        self.stack = stack_spec(look, self.bar.columns or 1)
        if (is_bare := not process.phases and process.steps > FIRST) is not self.is_bare:
            self.is_bare = is_bare
            self._share_room()
        if self.chart.display:
            self.spec, self.unit = time_spec(look, self.chart.dot_columns or 2)
        self.clocks, self.whose = dict(process.clocks), look.whose
        self.queue = _queue(look)
        self.is_mean = view.cursor is None
        if not self.is_mean:
            self.at = look.reading(STEP_TIME)
        else:
            self.at = Reading(1.0 / process.rate) if process.rate else Reading()

    def present(self) -> None:
        """Stack, curve and title."""
        self.bar.show(self.stack)
        if self.chart.display:
            self.chart.show(self.spec)
        values: list[Value] = [] if self.at.y is None else [dated(self.at, duration(self.at.y, 7))]
        if values and self.is_mean:
            values = [Dated((*values[0], ("mean", Ink.DIM)), values[0])]
        values += self.queue
        unit = [f"{self.unit} a step"] if self.unit else []
        words = (
            unit
            if self.is_bare
            else ["% by phase" + (f", {self.unit} below" if self.chart.display and self.unit else "")]
        )
        words += ["device clock"] if "device" in self.clocks.values() else []
        words += self.whose
        self.head(values, ", ".join(words))

    def on_resize(self) -> None:
        """The curve needs rows of its own."""
        self._share_room()
