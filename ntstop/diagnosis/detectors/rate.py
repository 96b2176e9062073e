"""The learning rate as a witness: a planned restart, a sudden jump, or a schedule that has come to its end."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

LOOK_BACK = 16
"""Points over which a rise is measured."""
RESTART = 1.5
"""A rise by half within `LOOK_BACK` points, to no more than the peak so far: a restart of the schedule."""
PEAK_SLACK = 1.2
JUMP = 2.0
"""Twice the peak so far from one point to the next: no schedule does that after its warm-up."""
NEAR_ZERO = 0.1
"""Under a tenth of its peak the rate is at the end of its schedule, and a flat loss is what one expects."""


@dataclass(frozen=True, slots=True)
class Jump:
    """The rate went from `before` to `after` at the step `x`."""

    x: int
    before: float
    after: float


class RateWatch:
    """Feed it the largest learning rate of all groups at every point."""

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=LOOK_BACK)
        self.peak = 0.0
        self.last: float | None = None
        self.jump: Jump | None = None
        """The last sudden jump above the peak."""
        self._climbing = False
        self.warming = False
        """The rate is still rising to its first peak."""

    @property
    def climbing(self) -> bool:
        """The rate has been rising ever since a planned restart began: the loss may rise with it."""
        return self._climbing

    @property
    def near_zero(self) -> bool:
        """The rate is small against its peak, or zero."""
        return self.last is not None and self.last < NEAR_ZERO * self.peak

    def steady(self, rates: NDArray[np.float64]) -> int:
        """How many of these points, from the first on, only hold or lower the rate: `extend` may take them."""
        full = len(self._recent) == LOOK_BACK
        if self.last is None or self._climbing or not full or not len(rates) or not rates[0] <= self.last:
            return 0
        if any(later > earlier for earlier, later in pairwise(self._recent)):
            return 0
        falls = rates[1:] <= rates[:-1]
        return len(rates) if falls.all() else int(np.argmin(falls)) + 1

    def extend(self, rates: NDArray[np.float64]) -> None:
        """Take in points that are `steady`; no restart and no jump is among them."""
        self._recent.extend(rates[-LOOK_BACK:].tolist())
        self.warming = False
        self.last = self._recent[-1]

    def add(self, x: int, rate: float) -> bool:
        """True when a planned restart begins at this point."""
        if rate == self.last and len(self._recent) == LOOK_BACK and self._recent[0] == rate:
            self.warming = self._climbing = False
            return False
        restart = False
        if self._recent:
            settled = len(self._recent) == LOOK_BACK
            previous = self._recent[-1]
            if settled and previous > 0 and rate >= JUMP * previous and rate >= JUMP * self.peak:
                self.jump = Jump(x, previous, rate)
            elif settled and not (self.warming or self._climbing) and previous < rate <= PEAK_SLACK * self.peak:
                restart = rate >= RESTART * min(self._recent)
            # One restart is told once, not at every point of its rise.
            self._climbing = (self._climbing or restart) and rate >= previous
            self.warming = rate > self._recent[0] and rate >= self.peak
        self._recent.append(rate)
        self.peak = max(self.peak, rate)
        self.last = rate
        return restart
