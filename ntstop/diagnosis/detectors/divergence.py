"""A loss that is lost: above where it began, exploding, or risen and stuck."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from statistics import median
from typing import Literal

from .levels import Levels, pooled

START = 5
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
EXPLOSION = math.log(10.0)
EXPLOSION_RUN = 2
"""Two points in a row, each ten times over the lowest level and rising: three steps before Inf, in real runs."""

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


class DivergenceDetector:
    """Feed it every finite point; it tells of the beginning and the end of a divergence."""

    def __init__(self) -> None:
        self._start: list[float] = []
        self._start_x = 0
        self._first: list[float] = []
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
            return self._begin(Divergence("above-start", points[0][0], self._initial, self._start_x, level, x))
        return None

    def _begin(self, divergence: Divergence) -> Divergence:
        self.current = divergence
        self._below = 0
        return divergence

    def _learn(self, x: int, y: float) -> None:
        """The initial loss from the first points, the line above it once the noise is known."""
        if not self._first:
            self._start_x = x
        self._first.append(y)
        if len(self._first) == START:
            # In a log of every hundredth step the descent may be over by the second point.
            self._initial = max(self._first[0], median(self._first))
        if len(self._first) == LEARN_NOISE:
            steps = [abs(second - first) for first, second in zip(self._first, self._first[1:], strict=False)]
            sigma = DIFF_TO_SIGMA * median(steps)
            z = ABOVE_Z if self._positive else ABOVE_Z_SIGNED
            self._line = self._initial + max(ABOVE_RATIO * abs(self._initial), z * sigma)
            for index, value in enumerate(self._first):
                self._above.append((x - LEARN_NOISE + 1 + index, value) if value > self._line else None)

    def _explosion(self, x: int, y: float) -> Divergence | None:
        self._recent.append(y)
        if not self._positive or len(self._first) < LEARN_NOISE:
            return None
        if y > 10.0 * self._lowest and (not self._exploding or y > self._exploding[-1][1]):
            self._exploding.append((x, y))
            if len(self._exploding) >= EXPLOSION_RUN:
                first_x = self._exploding[0][0]
                return Divergence("explosion", first_x, self._lowest, self._lowest_x, y, x)
            return None
        self._exploding.clear()
        if y < self._lowest and (level := median(self._recent)) < self._lowest:
            self._lowest, self._lowest_x = level, x
        return None


REGRESS_BLOCKS = 32
"""Blocks of `Levels` that must exist; a curve of fewer than 48 points is too short for "stuck"."""
REGRESS_POINTS = 48
REGRESS_RISE = 0.05
REGRESS_Z = 6.0
"""The last quarter of the run lies 5 % and 6 standard errors over the best eighth. Excursions of healthy runs that
come back by themselves last under a tenth of the run."""


def regressed(levels: Levels, initial: float) -> Divergence | None:
    """The loss was better in its best eighth than in its whole last quarter; None when not, or too early to say.

    Rise is relative to the best level for losses that stay positive, to the descent from `initial` otherwise.
    """
    blocks = levels.blocks
    if len(blocks) < REGRESS_BLOCKS or levels.count < REGRESS_POINTS:
        return None
    quarter, eighth = len(blocks) // 4, len(blocks) // 8
    late_mean, late_variance, late_count = pooled(blocks[-quarter:])
    best = None
    for start in range(0, len(blocks) - quarter - eighth + 1, max(1, eighth // 2)):
        mean, variance, count = pooled(blocks[start : start + eighth])
        if best is None or mean < best[0]:
            best = (mean, variance, count, start)
    if best is None:
        return None
    mean, variance, count, start = best
    rise = late_mean - mean
    scale = abs(mean + levels.origin) if mean + levels.origin > 0 else abs(initial - mean - levels.origin)
    error = math.sqrt(late_variance / late_count + variance / count)
    if rise <= REGRESS_RISE * scale or rise <= REGRESS_Z * error:
        return None
    first_x = _left(blocks[start + eighth :], mean + rise / 2)
    middle = blocks[start + eighth // 2]
    return Divergence("regressed", first_x, mean + levels.origin, middle.x1, late_mean + levels.origin, blocks[-1].x1)


def _left(blocks: list, line: float) -> int:  # type: ignore[type-arg]
    """First step of the first block after which the curve is above `line` on average."""
    for block in blocks:
        if block.mean > line:
            return int(block.x0)
    return int(blocks[-1].x0)
