"""A loss that is lost: above where it began, or exploding."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Literal

import numpy as np
from numpy.typing import NDArray

START = 3
"""Points of which the first, or the median if that is higher, is the initial loss."""
LEARN_NOISE = 16
"""Points from which the noise is estimated (median absolute step between neighbours)."""
DIFF_TO_SIGMA = 1.4826 / math.sqrt(2)
ABOVE_RATIO = 0.15
ABOVE_Z = 4.0
ABOVE_Z_SIGNED = 8.0
WINDOW = 8
ABOVE_COUNT = 7
"""7 of the last 8 points lie 15 % and 4 sigma over the initial loss. In the healthy development curves no level
does that (the highest stays within 5 % of the start); a loss that can be negative has no scale, so 8 sigma."""
BELOW_COUNT = 32
"""Points in a row under that line after which it is over."""
EXPLOSION = 10.0
EXPLOSION_RUN = 2
"""Two rising points in a row, ten times over the lowest level and over the line above the start: in real runs that
comes three steps before Inf. The line matters: a solved task has batches of a hundred times its usual loss."""

How = Literal["above-start", "explosion", "regressed"]


@dataclass(slots=True)
class Divergence:
    """`reference` is the loss it is measured against, `reference_x` where that was; `level` where it is now."""

    how: How
    first_x: int
    reference: float
    reference_x: int
    level: float
    last_x: int
    over: bool = False
    below_x: int = 0
    """Once it is over: the first point of those under the line."""


class DivergenceDetector:
    """Feed it every finite point; it tells of the beginning and the end of a divergence."""

    def __init__(self) -> None:
        self._first: list[tuple[int, float]] = []
        self._early_x: int | None = None
        """First high point of the first `LEARN_NOISE`, while it may be where a divergence began."""
        self._line = math.inf
        self._initial = math.inf
        self._above: deque[tuple[int, float] | None] = deque(maxlen=WINDOW)
        self._below = 0
        self._lowest = math.inf
        self._lowest_x = 0
        self._recent: deque[float] = deque(maxlen=WINDOW)
        self._exploding: list[tuple[int, float]] = []
        self._positive = True
        self.current: Divergence | None = None

    @property
    def initial(self) -> float:
        """The initial loss; Inf before it is known."""
        return self._initial

    def add(self, x: int, y: float) -> Divergence | None:
        """The divergence that began or ended with this point, else None."""
        self._positive = self._positive and y > 0
        if len(self._first) < LEARN_NOISE:
            self._learn(x, y)
        exploded = self._explosion(x, y)
        high = y > self._line
        self._above.append((x, y) if high else None)
        current = self.current
        if current is not None:
            current.last_x, current.level = x, y
            if not high and self._below == 0:
                current.below_x = x
            self._below = 0 if high else self._below + 1
            if self._below >= BELOW_COUNT:
                current.over = True
                self.current = None
                self._above.clear()
                return current
            return None
        if exploded is not None:
            return self._begin(exploded)
        if high and sum(point is not None for point in self._above) >= ABOVE_COUNT:
            points = [point for point in self._above if point is not None]
            level = median(value for _, value in points)
            first_x = points[0][0] if self._early_x is None else self._early_x
            return self._begin(Divergence("above-start", first_x, self._initial, self._first[0][0], level, x))
        self._early_x = None
        return None

    def calm(self, y: NDArray[np.float64]) -> int:
        """How many of these finite points, from the first on, are under the line: `extend` may take them."""
        if len(self._first) < LEARN_NOISE or self.current is not None or self._exploding:
            return 0
        ordinary = y <= self._line
        if self._positive:
            ordinary &= y > 0
        return len(y) if ordinary.all() else int(np.argmin(ordinary))

    def extend(self, x: Sequence[int], y: NDArray[np.float64]) -> None:
        """Take in points that are `calm`, exactly as `add` would one by one."""
        self._above.extend([None] * min(len(y), WINDOW))
        self._early_x = None
        if self._positive:
            self._lower(x, y)
        self._recent.extend(y[-WINDOW:].tolist())

    def _lower(self, x: Sequence[int], y: NDArray[np.float64]) -> None:
        """The lowest level there is after these points: a median of eight, looked at where a point is under it."""
        low = np.flatnonzero(y < self._lowest)
        if not len(low):
            return
        points = np.concatenate((np.array(self._recent), y))
        windows = np.sort(points[low[:, None] + np.arange(1, WINDOW + 1)], axis=1)
        levels = (windows[:, WINDOW // 2 - 1] + windows[:, WINDOW // 2]) / 2
        for index, point, level in zip(low.tolist(), y[low].tolist(), levels.tolist(), strict=True):
            if point < self._lowest and level < self._lowest:
                self._lowest, self._lowest_x = level, x[index]

    def _begin(self, divergence: Divergence) -> Divergence:
        self.current = divergence
        self._below = 0
        return divergence

    def _learn(self, x: int, y: float) -> None:
        """The initial loss from the first points, the line above it once the noise is known."""
        self._first.append((x, y))
        values = [value for _, value in self._first]
        if len(values) == START:
            # In a log of every hundredth step the descent may be over by the second point.
            self._initial = max(values[0], median(values))
        if len(values) == LEARN_NOISE:
            sigma = DIFF_TO_SIGMA * median(abs(second - first) for first, second in pairwise(values))
            z = ABOVE_Z if self._positive else ABOVE_Z_SIGNED
            self._line = self._initial + max(ABOVE_RATIO * abs(self._initial), z * sigma)
            above = [point if point[1] > self._line else None for point in self._first]
            self._above.extend(above[:-1])
            self._early_x = next((point[0] for point in above if point is not None), None)

    def _explosion(self, x: int, y: float) -> Divergence | None:
        self._recent.append(y)
        if not self._positive or len(self._first) < LEARN_NOISE:
            return None
        if y > max(EXPLOSION * self._lowest, self._line) and (not self._exploding or y > self._exploding[-1][1]):
            self._exploding.append((x, y))
            if len(self._exploding) >= EXPLOSION_RUN:
                first_x = self._exploding[0][0]
                return Divergence("explosion", first_x, self._lowest, self._lowest_x, y, x)
            return None
        self._exploding.clear()
        if y < self._lowest and (level := median(self._recent)) < self._lowest:
            self._lowest, self._lowest_x = level, x
        return None
