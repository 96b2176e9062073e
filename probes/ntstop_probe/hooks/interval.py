"""How often to look, so that looking stays within an allowance a step."""

from __future__ import annotations

from collections import deque
from statistics import median

EARLY = (0, 1, 2, 4, 8)
"""Steps looked at in any case: someone who starts a run wants to see its layers now."""
LONGEST = 65_536
FIRST = 8
REMEMBERED = 5
"""Looks whose median is the cost of one: a single one may have been interrupted by anything."""
PATIENCE = 8
"""Looks in a row that must find the interval too long before it is halved: shed fast, recover slowly."""


class SampleInterval:
    """A power of two of steps, at least `shortest`, for one kind of look.

    All ranks count the same steps, so a rank with the longer interval looks at a subset of the same steps. What a look
    took beyond its allowance is owed: until it is paid off, the looks that fall due are left out. So whatever the
    looks cost, all but the newest of them stay within the allowance of the steps since.
    """

    def __init__(self, shortest: int = 1, early: tuple[int, ...] = EARLY) -> None:
        self.steps = max(FIRST, shortest)
        self.cost: float | None = None
        """Seconds of one look, as a rule; None before the second (the first pays for caches and lazy set-up)."""
        self._shortest = shortest
        self._early = early
        self._costs: deque[float] = deque(maxlen=REMEMBERED)
        self.warm = False
        """The first look is over."""
        self._too_long = 0
        self._owed = 0.0
        self._last = 0
        self._resting = 0
        """Steps it takes to pay off what is owed."""

    def next_after(self, ordinal: int) -> int:
        """The first step after `ordinal` to look at."""
        regular = ((ordinal + self._resting) // self.steps + 1) * self.steps
        for early in self._early:
            if ordinal < early < regular:
                return early
        return regular

    def wanted(self, allowance: float, cost: float | None = None) -> int:
        """The interval at which looks of `cost` seconds (default: as they were) take `allowance` seconds a step."""
        cost = self.cost if cost is None else cost
        steps = self._shortest
        while steps < LONGEST and steps * allowance < (cost or 0.0):
            steps *= 2
        return steps

    def spent(self, seconds: float, allowance: float | None, ordinal: int) -> bool:
        """The look at step `ordinal` took `seconds`; `allowance`: seconds a step. True: the interval has changed."""
        if not self.warm:
            self.warm = True
            self._last = ordinal
            return False
        self._costs.append(seconds)
        self.cost = median(self._costs)
        if allowance is None or allowance <= 0.0:
            return False
        self._owed = max(0.0, self._owed - allowance * (ordinal - self._last)) + seconds
        self._last = ordinal
        self._resting = int(min(self._owed / allowance, LONGEST))
        wanted = self.wanted(allowance)
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
