"""The level and the noise of the recent past, robustly: median and MAD over a ring of points."""

from __future__ import annotations

from collections import deque
from statistics import median

SIZE = 64
"""Points in the ring: the length of the frozen baseline that fired least on 801 healthy public runs."""
REFRESH = 8
"""New points before level and spread are computed again: a median of 64 costs more than 8 appends."""
MAD_TO_SIGMA = 1.4826
"""MAD of a normal distribution to its standard deviation."""


class Baseline:
    """`level` (median) and `spread` (1.4826 × MAD) of the last `SIZE` points, both in the unit of the points."""

    def __init__(self) -> None:
        self._ring: deque[float] = deque(maxlen=SIZE)
        self._stale = 0
        self.level = 0.0
        self.spread = 0.0

    def __len__(self) -> int:
        return len(self._ring)

    def push(self, value: float) -> None:
        """Add one finite point."""
        self._ring.append(value)
        self._stale += 1
        if self._stale >= REFRESH or len(self._ring) <= REFRESH:
            self._refresh()

    def clear(self) -> None:
        """Forget everything: what comes is measured against itself."""
        self._ring.clear()
        self._stale = 0

    def _refresh(self) -> None:
        self._stale = 0
        self.level = median(self._ring)
        self.spread = MAD_TO_SIGMA * median(abs(value - self.level) for value in self._ring)
