"""How long a step may take before it is a stall, learned from the steps there were."""

from __future__ import annotations

import math
from collections import deque

import numpy as np
from numpy.typing import NDArray

FLOOR = 20.0
FACTOR = 20.0
"""A stall is max(20 s, 20 × the p99 step): progress and phase, not silence."""
LONGEST_FACTOR = 1.5
"""What has already taken long and went on (an evaluation nobody announced) may take half as long again."""
FIRST_STEPS = 3
FIRST_STEP_FLOOR = 600.0
"""Seconds for each of the first three steps: compilation, autotuning, filling of caches and loader workers."""
SLOW_PHASE_FLOOR = 900.0
SLOW_PHASES = frozenset({"eval", "checkpoint"})
"""Phases that may take a quarter of an hour, or five times their longest so far, without anything being wrong."""
SLOW_PHASE_FACTOR = 5.0
WINDOW = 512
"""Steps from which the p99 is taken."""

CLASSES = {
    "data": "data",
    "forward": "forward",
    "input+forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "collective": "collective",
    "checkpoint": "checkpoint",
    "eval": "eval",
    "other": "host",
    "start": "host",
}
"""Phase of the training thread to class of the stall; what is not here (idle) cannot stall."""


def valid(durations: NDArray[np.float64]) -> bool:
    """Whether all of them are times, none of them NaN, infinite or negative."""
    return bool(((durations >= 0.0) & (durations < math.inf)).all())


class StepTimes:
    """The distribution of step times, and the longest of each slow phase."""

    def __init__(self) -> None:
        self._durations: deque[float] = deque(maxlen=WINDOW)
        self._stale = True
        self._p99 = 0.0
        self.longest = 0.0
        """Longest step but the first ones, seconds."""
        self._slow: dict[str, float] = {}

    def add(self, ordinal: int, seconds: float) -> None:
        """One finished step. What is no time (NaN, Inf) says nothing about the others."""
        if ordinal < FIRST_STEPS or not 0.0 <= seconds < math.inf:
            return
        self._durations.append(seconds)
        self._stale = True
        self.longest = max(self.longest, seconds)

    def extend(self, durations: list[float]) -> None:
        """Finished steps after the first ones, all of them times (see `valid`)."""
        self._durations.extend(durations)
        self._stale = True
        self.longest = max(self.longest, *durations)

    def slow_phase(self, phase: str, seconds: float) -> None:
        """A checkpoint or an evaluation has been in its phase this long."""
        self._slow[phase] = max(self._slow.get(phase, 0.0), seconds)

    @property
    def p99(self) -> float:
        """Seconds; 0 before any step."""
        if self._stale and self._durations:
            ordered = sorted(self._durations)
            self._p99 = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
            self._stale = False
        return self._p99

    def threshold(self, phase: str, ordinal: int) -> float:
        """Seconds in `phase` of the step `ordinal` after which it is a stall."""
        threshold = max(FLOOR, FACTOR * self.p99, LONGEST_FACTOR * self.longest)
        if ordinal < FIRST_STEPS:
            threshold = max(threshold, FIRST_STEP_FLOOR)
        if phase in SLOW_PHASES:
            threshold = max(threshold, SLOW_PHASE_FLOOR, SLOW_PHASE_FACTOR * self._slow.get(phase, 0.0))
        return threshold
