"""How often to look, so that looking stays within a share of the step time."""

from __future__ import annotations

from collections import deque
from statistics import median

EARLY = (0, 1, 2, 4, 8)
"""Steps looked at in any case: someone who starts a run wants to see its layers now."""
LONGEST = 65_536
REMEMBERED = 5
"""Samples whose median is the cost of one: a single one may have been interrupted by anything."""
PATIENCE = 8
"""Samples in a row that must find the interval too long before it is halved: shed fast, recover slowly."""


class SampleInterval:
    """A power of two of steps. All ranks count the same steps, so a rank with the longer interval samples a subset.

    `budget` is the share of the step time that sampling may take, `shortest` the least interval.
    """

    def __init__(self, budget: float, shortest: int = 1, early: tuple[int, ...] = EARLY) -> None:
        self.steps = max(8, shortest)
        self._budget = budget
        self._shortest = shortest
        self._early = early
        self._costs: deque[float] = deque(maxlen=REMEMBERED)
        self._warm = False
        self._too_long = 0

    def next_after(self, ordinal: int) -> int:
        """The first step after `ordinal` to look at."""
        regular = (ordinal // self.steps + 1) * self.steps
        for early in self._early:
            if ordinal < early < regular:
                return early
        return regular

    def spent(self, seconds: float, step_time: float | None) -> bool:
        """A sample took `seconds` where a step takes `step_time`; True when that changes the interval."""
        if not self._warm:
            # The first one also pays for caches and lazy set-up.
            self._warm = True
            return False
        self._costs.append(seconds)
        if step_time is None or step_time <= 0.0:
            return False
        wanted = self._shortest
        needed = median(self._costs) / (self._budget * step_time)
        while wanted < needed and wanted < LONGEST:
            wanted *= 2
        if wanted > self.steps:
            self.steps = wanted
            self._too_long = 0
            return True
        self._too_long = self._too_long + 1 if wanted < self.steps else 0
        if self._too_long >= PATIENCE:
            self.steps //= 2
            self._too_long = 0
            return True
        return False
