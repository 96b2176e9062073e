"""Curves of one or several runs, laid on one axis: what a chart is drawn from."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..curves.alignment import AXES, STEPS, Alignment, AxisName, alignment_of
from ..curves.smooth import SHARES, smoothed
from ..run.names import is_set, main_curve
from ..run.process import ProcessState
from ..run.units import Scale
from .raster.ink import Ink
from .raster.scale import steady_range
from .raster.spec import ChartSpec, Marker, Span, Trace
from .reading import Reading, reading_at
from .workspace import Look, Shown

FEW = 1 / 8
"""Points for each column of dots below which each of them is shown, and none is smoothed."""
_UNITS = (("s", 1.0, 120.0), ("min", 60.0, 7200.0), ("h", 3600.0, 172_800.0), ("d", 86_400.0, np.inf))


@dataclass(frozen=True, eq=False, slots=True)
class Lane:
    """A run, and how it lies on the axis; None: it has not measured that."""

    shown: Shown
    process: ProcessState
    alignment: Alignment | None


@dataclass(frozen=True, eq=False, slots=True)
class Frame:
    """The axis that all charts of a screen share."""

    axis: AxisName
    lanes: tuple[Lane, ...]
    x_range: tuple[float, float]
    """In units of `scale`, as drawn."""
    scale: float = 1.0
    unit: str = ""
    cursor: float | None = None
    end: float = np.inf
    """What lies beyond is not drawn: the picture is stopped there."""
    markers: tuple[Marker, ...] = ()
    spans: tuple[Span, ...] = ()

    def step_at(self, place: float) -> float:
        """The step of the first run that is drawn at `place`."""
        first = self.lanes[0].alignment or STEPS
        return first.step(place * self.scale)


def axes_of(look: Look) -> list[AxisName]:
    """The axes that at least one run has measured."""
    return [axis for axis in AXES if any(_lane(pair, axis).alignment is not None for pair in look.runs)]


def frame_of(look: Look, axis: AxisName) -> Frame:
    """The axis of the view: zoomed in, its steps are those of the first run; else it reaches over all runs.

    It is the step where the first run has not measured the one that is asked for.
    """
    view = look.view
    lanes = tuple(_lane(pair, axis) for pair in look.runs)
    first = lanes[0].alignment
    if axis == "step" or first is None:
        lanes = tuple(_lane(pair, "step") for pair in look.runs)
        spans = tuple(look.spans)
        return Frame("step", lanes, view.window, 1.0, "", view.cursor, view.query[1], tuple(look.markers), spans)
    ends = [lane.alignment.place(_last(lane.process)) for lane in lanes if lane.alignment is not None]
    unit, scale = "", 1.0
    if axis == "time":
        unit, scale = next((name, size) for name, size, below in _UNITS if max(ends) < below)
    left, right = (first.place(step) / scale for step in view.window)
    if view.span is None:
        left, right = steady_range(min(left, 0.0), max(ends) / scale)
    markers = tuple(replace(marker, x=first.place(marker.x) / scale) for marker in look.markers)
    cursor = None if view.cursor is None else first.place(view.cursor) / scale
    end = np.inf if view.frozen is None else first.place(view.frozen) / scale
    spans = tuple(
        replace(span, x0=first.place(span.x0) / scale, x1=first.place(span.x1) / scale) for span in look.spans
    )
    return Frame(axis, lanes, (left, right), scale, unit, cursor, end, markers, spans)


def _lane(pair: tuple[Shown, ProcessState], axis: AxisName) -> Lane:
    shown, process = pair
    clock = main_curve(process.series) or ""
    return Lane(shown, process, alignment_of(axis, process.series, clock))


def _last(process: ProcessState) -> float:
    series = process.series.get(main_curve(process.series) or "")
    reach = series.x_range if series is not None else None
    return reach[1] if reach else process.x


def trace_of(frame: Frame, lane: Lane, name: str, columns: int, smoothing: str, ink: Ink, *, band: bool) -> list[Trace]:
    """The curve of one run in about `columns` columns: a line, and where it has few points those too.

    Empty where the run has no such curve, or does not lie on this axis. With `band` the line runs over the range from
    the lowest to the highest value, else alone.
    """
    session, alignment = lane.shown.session, lane.alignment
    if name not in lane.process.series or alignment is None:
        return []
    smoothing = "off" if is_set(name) else smoothing
    left, right = frame.x_range
    margin = SHARES[smoothing] * (right - left)
    x0, x1 = (alignment.step(end * frame.scale) for end in (left - margin, min(right, frame.end)))
    found = session.zoom.window(session.state, lane.process, name, x0, x1, columns, edges=True)
    is_sparse = found.count.sum() <= max(columns * FEW, 2)
    # As far as that of the same curve on the overview.
    width = alignment.step(right * frame.scale) - alignment.step(left * frame.scale)
    y = found.mean if is_sparse else smoothed(found, smoothing, width)
    x = found.x if alignment is STEPS else alignment.to_places(found.x) / frame.scale
    lo, hi = (found.lo, found.hi) if band and not is_sparse else (None, None)
    bad = found.nonfinite
    line = Trace(x, y, lo, hi, nonfinite=bad, segment=found.segment, label=lane.shown.name or name, ink=ink)
    points = Trace(found.x if alignment is STEPS else x, found.mean, nonfinite=bad * 0, ink=ink, kind="points")
    return [line, points] if is_sparse else [line]


def differences(traces: Sequence[Trace]) -> list[Trace]:
    """Each curve but the first, less the first, where both are."""
    lines = [trace for trace in traces if trace.kind == "line"]
    if not lines:
        return []
    base, others = lines[0], lines[1:]
    known = np.isfinite(base.y)
    bx, by = base.x[known], base.y[known]
    order = np.argsort(bx, kind="stable")
    found = []
    for trace in others:
        there = np.interp(trace.x, bx[order], by[order], left=np.nan, right=np.nan) if len(bx) else trace.y * np.nan
        found.append(replace(trace, y=trace.y - there, lo=None, hi=None, nonfinite=np.zeros(len(trace.x), np.int64)))
    return found


def reading_in(frame: Frame, lane: Lane, name: str, base: Lane | None = None) -> Reading:
    """What one run has measured at the cursor, else last; nothing where the cursor is beyond its end.

    With `base` it is less what that run has, without a cursor where the shorter of both ends.
    """
    place = frame.end if frame.cursor is None else frame.cursor
    if base is None:
        return _measured(frame, lane, name, place)
    if frame.cursor is None:
        place = min(place, _end(frame, lane), _end(frame, base))
    here, there = _measured(frame, lane, name, place).y, _measured(frame, base, name, place).y
    return Reading() if here is None or there is None else Reading(here - there)


def _end(frame: Frame, lane: Lane) -> float:
    """Where a run ends on the axis, as drawn."""
    return np.inf if lane.alignment is None else lane.alignment.place(_last(lane.process)) / frame.scale


def _measured(frame: Frame, lane: Lane, name: str, place: float) -> Reading:
    process, alignment = lane.process, lane.alignment
    series = process.series.get(name)
    if series is None or alignment is None:
        return Reading()
    last, step = _last(process), place
    if place < np.inf and alignment is not STEPS:
        # The nearest: a place of another axis falls between steps.
        step = alignment.step(place * frame.scale) + process.stride / 2
    if frame.cursor is not None and step > last + process.stride:
        return Reading()
    point = lane.shown.session.zoom.point_at(process, name, step)
    if frame.axis != "step":
        return Reading() if point is None else Reading(point[1])
    return reading_at(point, series.spacing, frame.cursor, min(last, frame.end))


def named_in(names: Sequence[str | None], known: Collection[str]) -> str | None:
    """The first of `names` that is `known`, in whole or by its last part: evidence says "data" of "phase/data"."""
    for name in names:
        found = name if name in known else next((one for one in known if name and one.endswith(f"/{name}")), None)
        if found:
            return found
    return None


def chart_of(frame: Frame, traces: Sequence[Trace], *, log: bool) -> ChartSpec:
    """A chart of these curves on the shared axis."""
    return ChartSpec(
        traces=tuple(traces),
        x_range=frame.x_range,
        log=log,
        markers=frame.markers,
        spans=frame.spans,
        cursor_x=frame.cursor,
        legend=False,
        empty="nothing here",
    )


def scaled(traces: Sequence[Trace], scale: Scale) -> list[Trace]:
    """The same curves in another unit."""
    by = scale.divisor
    return [
        trace
        if by == 1.0
        else replace(
            trace,
            y=trace.y / by,
            lo=None if trace.lo is None else trace.lo / by,
            hi=None if trace.hi is None else trace.hi / by,
        )
        for trace in traces
    ]
