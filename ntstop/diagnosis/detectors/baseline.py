"""The level and the noise of the recent past, robustly: medians over a ring of points.

The noise is taken from the steps between neighbours, so that a descent does not look like noise.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from statistics import median

SIZE = 64
"""Points in the ring: the length of the frozen baseline that fired least on 801 healthy public runs."""
REFRESH = 16
"""New points before level and spread are computed again: two medians of 64 cost as much as 60 appends."""
DIFF_TO_SIGMA = 1.4826 / math.sqrt(2.0)
"""Median absolute step between neighbours, of independent normal noise, to the standard deviation of one point."""


class Baseline:
    """`level` (median) and `spread` (one sigma) of the last `SIZE` points, both in the unit of the points."""

    def __init__(self) -> None:
        self._ring: deque[float] = deque(maxlen=SIZE)
        self._stale = 0
        self.level = 0.0
        self.spread = 0.0

    def __len__(self) -> int:
        return len(self._ring)

    def push(self, value: float) -> bool:
        """Add one finite point; True when level and spread are new."""
        self._ring.append(value)
        self._stale += 1
        if self._stale < REFRESH and len(self._ring) > REFRESH:
            return False
        self._refresh()
        return True

    def clear(self) -> None:
        """Forget everything: what comes is measured against itself."""
        self._ring.clear()
        self._stale = 0

    def _refresh(self) -> None:
        self._stale = 0
        self.level = median(self._ring)
        points = list(self._ring)
        steps = [abs(second - first) for first, second in itertools.pairwise(points)]
        self.spread = DIFF_TO_SIGMA * median(steps) if steps else 0.0
