"""The level and the noise of the recent past, robustly: medians over a ring of points.

The noise is taken from the steps between neighbours, so that a descent does not look like noise.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from statistics import median

import numpy as np

SIZE = 64
"""Points in the ring: the length of the frozen baseline that fired least on 801 healthy public runs."""
REFRESH = 16
"""New points before level and spread are computed again: two medians of 64 cost as much as 60 appends. While there are
fewer points, a quarter of them: the first ones, of a steep descent, must not stand for what comes."""
YOUNG = 16
"""Points of which the level is the median until the ring is full: in the descent of a young run more of them lie too
far back, and would hide a rise."""
DIFF_TO_SIGMA = 1.4826 / math.sqrt(2.0)
"""Median absolute step between neighbours, of independent normal noise, to the standard deviation of one point."""


class Baseline:
    """`level` (median) and `spread` (one sigma) of the last `SIZE` points, both in the unit of the points.

    The level is that of the last `YOUNG` while there are fewer points."""

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
        if self._stale < len(self._ring) // (SIZE // REFRESH):
            return False
        self._refresh()
        return True

    def ahead(self, values: list[float]) -> list[tuple[int, float, float]]:
        """What pushing these finite points one by one would bring, without doing it: (points pushed, level, spread)
        at each refresh. The ring must be full."""
        ends = np.arange(REFRESH - self._stale, len(values) + 1, REFRESH)
        if not len(ends):
            return []
        points = np.array([*self._ring, *values])
        windows = points[ends[:, None] + np.arange(SIZE)]
        steps = np.sort(np.abs(windows[:, 1:] - windows[:, :-1]), axis=1)
        windows.sort(axis=1)
        levels = (windows[:, SIZE // 2 - 1] + windows[:, SIZE // 2]) / 2
        spreads = DIFF_TO_SIGMA * steps[:, (SIZE - 1) // 2]
        return list(zip(ends.tolist(), levels.tolist(), spreads.tolist(), strict=True))

    def extend(self, values: list[float], refreshed: tuple[int, float, float] | None) -> None:
        """Push points whose last refresh is known from `ahead`; None when there is none among them."""
        self._ring.extend(values)
        if refreshed is None:
            self._stale += len(values)
            return
        end, self.level, self.spread = refreshed
        self._stale = len(values) - end

    def clear(self) -> None:
        """Forget everything: what comes is measured against itself."""
        self._ring.clear()
        self._stale = 0

    def _refresh(self) -> None:
        self._stale = 0
        points = list(self._ring)
        self.level = median(points if len(points) == SIZE else points[-YOUNG:])
        steps = [abs(second - first) for first, second in itertools.pairwise(points)]
        self.spread = DIFF_TO_SIGMA * median(steps) if steps else 0.0
