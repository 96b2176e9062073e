"""A value and the step it was measured at: what was carried forward is told with its own step, here for all panes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..curves.series import Series
from ..run.process import ProcessState
from ..text import count
from .raster.legend import point_at
from .raster.spec import Trace

RECENT = 64
"""Steps by which a curve with a point at each step may lie behind the newest: its next points are on their way."""
STALE = 1.5
"""Usual distances of two points from which a value is older than its curve ever lets it be."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The value `y` of step `x`, told at the step `at`. `y` is None where nothing was measured by then."""

    y: float | None = None
    x: float = math.nan
    at: float = math.nan
    spacing: float = 0.0
    """Usual distance of the points of its curve, in steps."""
    is_newest: bool = False
    """It is told as the newest there is, not as that of the step under a cursor."""

    @property
    def is_behind(self) -> bool:
        """It is not of the step that it is told at."""
        least = RECENT if self.is_newest and self.spacing <= 1 else 1
        return self.y is not None and self.at - self.x >= least

    @property
    def is_stale(self) -> bool:
        """It lies further back than the curve does as a rule."""
        return self.is_behind and self.at - self.x > STALE * self.spacing

    @property
    def since(self) -> str:
        """ "@360": its own step where that is another; else as many blanks, so that nothing beside it moves.

        "" of a curve that has a point at each step: there it is rare.
        """
        if self.y is None or not (self.is_behind or self.spacing > 1):
            return ""
        return (f"@{count(self.x)}" if self.is_behind else "").ljust(len(count(self.at)) + 1)


def reading_of(series: Series | None, cursor: float | None, newest: float) -> Reading:
    """What a curve says at the cursor; without one its newest value, told at the step `newest`."""
    if series is None:
        return Reading()
    point = series.point_at(math.inf if cursor is None else cursor)
    return reading_at(point, series.spacing, cursor, newest)


def reading_at(point: tuple[float, float] | None, spacing: float, cursor: float | None, newest: float) -> Reading:
    """The same of a point that was found already: its step and its value."""
    if point is None:
        return Reading()
    at = newest if cursor is None else cursor
    return Reading(point[1], point[0], at, spacing, is_newest=cursor is None)


def sample_words(steps: tuple[float, float] | None, cursor: float | None) -> str:
    """ "sample of step 287, 297 before": which sample is told at the cursor, or as the newest.

    `steps`: the first and the last of it, where it is the mean of several; None where there is none.
    """
    if steps is None:
        return "" if cursor is None else f"step {count(cursor)}"
    first, last = steps
    mean = f"mean of steps {count(first)} to {count(last)}" if last > first else ""
    if cursor is None:
        return mean or f"newest sample, step {count(last)}"
    if cursor - last >= 1:
        return f"{mean or f'sample of step {count(last)}'}, {count(cursor - last)} before"
    return f"step {count(cursor)}" + (f", {mean}" if mean else "")


def reading_on(trace: Trace, cursor: float | None) -> Reading:
    """What a curve as it is drawn says at the cursor; its columns lie a little aside, and that is not told."""
    point = point_at(trace, cursor)
    if point is None:
        return Reading()
    apart = np.abs(np.diff(trace.x))
    usual = float(np.median(apart)) if len(apart) else 1.0
    if cursor is None or cursor - point[0] <= STALE * usual:
        return Reading(point[1])
    return Reading(point[1], point[0], cursor)


def sampled_at(process: ProcessState, cursor: float, names: Sequence[str]) -> tuple[float, float] | None:
    """For `sample_words`: the step of what was measured at the cursor or last before it, of the first such curve."""
    found = (series.point_at(cursor) for name in names if (series := process.series.get(name)) is not None)
    return next(((point[0], point[0]) for point in found if point is not None), None)
