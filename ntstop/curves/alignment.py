"""Where the steps of a run lie on another axis, so that runs can be laid over each other by time or by tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .series import Series

AxisName = Literal["step", "time", "tokens"]
AXES: tuple[AxisName, ...] = ("step", "time", "tokens")

_KNOTS = 1024
"""Places of the run that are looked up; between them it is taken to go on evenly."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class Alignment:
    """Steps and their places on the axis, both rising; beyond their ends it goes on as evenly as it did on the whole.

    "time" is seconds of training: what lies between two attempts does not count, and a step that was made twice lies
    where it was first. "tokens" is their number since the start.
    """

    steps: Floats
    places: Floats

    def to_places(self, steps: Floats) -> Floats:
        """Where these steps lie; NaN stays NaN."""
        return _along(steps, self.steps, self.places)

    def to_steps(self, places: Floats) -> Floats:
        """The steps that lie there."""
        return _along(places, self.places, self.steps)

    def place(self, step: float) -> float:
        """Where one step lies."""
        return float(self.to_places(np.array([step]))[0])

    def step(self, place: float) -> float:
        """The step that lies there."""
        return float(self.to_steps(np.array([place]))[0])


STEPS = Alignment(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
"""The axis of steps itself."""


def alignment_of(axis: AxisName, series: Mapping[str, Series], clock: str) -> Alignment | None:
    """How a run with these curves lies on `axis`; None where it has not measured that.

    `clock` names the curve whose times are those of the steps: one that has a point in each.
    """
    if axis == "step":
        return STEPS
    source = series.get(clock if axis == "time" else "tokens")
    if source is None or source.x_range is None:
        return None
    buckets = source.window(*source.x_range, _KNOTS)
    if len(buckets) < 2:
        return None
    if axis == "time":
        gone = np.diff(buckets.t)
        gone[(np.diff(buckets.segment) != 0) | ~(gone > 0)] = 0.0
        places = np.concatenate(([0.0], np.cumsum(gone)))
    else:
        places = buckets.last
    return _rising(buckets.x_first[0], buckets.x_last, places)


def _rising(first: float, steps: Floats, places: Floats) -> Alignment | None:
    """Only where both go on; before the first knot, which is the end of a bucket, as far as after it."""
    steps, places = np.maximum.accumulate(steps), np.fmax.accumulate(places)
    known = np.isfinite(places)
    steps, places = steps[known], places[known]
    if not len(steps):
        return None
    goes_on = np.concatenate(([True], (np.diff(steps) > 0) & (np.diff(places) > 0)))
    steps, places = steps[goes_on], places[goes_on]
    if len(steps) < 2:
        return None
    pace = (places[1] - places[0]) / (steps[1] - steps[0])
    before = pace * (steps[0] - first)
    if places[0] == 0.0 and before > 0:
        # Times count from the first step.
        steps, places = np.concatenate(([first], steps)), np.concatenate(([0.0], places + before))
    return Alignment(steps, places)


def _along(wanted: Floats, x: Floats, y: Floats) -> Floats:
    pace = (y[-1] - y[0]) / (x[-1] - x[0])
    found = np.interp(wanted, x, y)
    found = np.where(wanted < x[0], y[0] + (wanted - x[0]) * pace, found)
    return np.where(wanted > x[-1], y[-1] + (wanted - x[-1]) * pace, found)
