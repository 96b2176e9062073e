"""The time of a step, from the times that a log gives: no longer than it was, and never negative."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .batch import Floats, Mask

LONGEST = 1e7
"""Seconds; a longer distance between two times of a log is no step time."""
_SET_BACK = 3
"""Steps in a row behind the latest time, after which a clock was set back. Fewer are of hosts whose clocks differ:
between those, only the one that is ahead is believed."""


class StepClock:
    """Takes steps that rise, each with its time in Unix seconds."""

    def __init__(self) -> None:
        self._latest: tuple[int, float] | None = None
        self._behind = 0

    def step(self, step: int, wall: float) -> float | None:
        """Seconds a step since the one before; None where they cannot be known."""
        if not math.isfinite(wall):
            return None
        before = self._latest
        if before is not None and wall < before[1]:
            self._behind += 1
            if self._behind >= _SET_BACK:
                self._latest, self._behind = (step, wall), 0
            return None
        self._latest, self._behind = (step, wall), 0
        if before is None or step <= before[0]:
            return None
        seconds = wall - before[1]
        return seconds / (step - before[0]) if 0.0 < seconds < LONGEST else None

    def steps(self, steps: NDArray[np.int64], walls: Floats) -> tuple[Floats, Mask]:
        """The same for many; False in the mask where it cannot be known."""
        before = self._latest if self._latest is not None else (int(steps[0]), float(walls[0]))
        apart = np.diff(steps, prepend=before[0])
        with np.errstate(invalid="ignore"):
            seconds = np.diff(walls, prepend=before[1])
        if not (seconds >= 0.0).all():
            each = [self.step(step, wall) for step, wall in zip(steps.tolist(), walls.tolist(), strict=True)]
            return np.array([found or 0.0 for found in each]), np.array([found is not None for found in each])
        there = (apart > 0) & (seconds > 0.0) & (seconds < LONGEST)
        self._latest, self._behind = (int(steps[-1]), float(walls[-1])), 0
        return np.divide(seconds, apart, out=np.zeros(len(steps)), where=there), there
