"""A loss that is lost: above where it began, exploding, or fallen back from most of its descent."""

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

from ..thresholds import threshold
from . import fallen

START = 3
"""Points of which the first, or the median if that is higher, is the initial loss."""
LEARN_NOISE = 16
"""Points from which the noise is estimated (median absolute step between neighbours)."""
DIFF_TO_SIGMA = 1.4826 / math.sqrt(2)
ABOVE_RATIO = threshold(
    "divergence.above-start",
    0.15,
    meaning="Share of the initial loss by which the loss must lie over it. Raised, only larger losses are told.",
    source="measured: no level of a healthy AlgoPerf run lies more than 5 % over its start",
    low=0.0,
    high=10.0,
)
ABOVE_Z = 4.0
ABOVE_Z_SIGNED = 8.0
WINDOW = 8
ABOVE_COUNT = 7
"""7 of the last 8 points lie 15 % and 4 sigma over the initial loss. A loss that can be negative has no scale, so 8
sigma."""
STEEP_RUN = 3
STEEP_AREA = 1.0
"""3 points in a row are enough when the sum of their log ratios to that line is as large as for 7 just high ones."""
EARLY_RUN = 5
EARLY_RISE = 1.5
EARLY_AREA = 5.0
"""While the noise is not known: 5 points in a row half over the start, e-fold on average, and not coming down. A first
step that overshoots comes down at once."""
FIRST_AREA = 2 * EARLY_AREA
FIRST_GAP = 2.0
"""Twice as far where only the very first point lies low, and the lowest of these points so many times farther over it
(in logs) than they are from each other: it may be a batch by luck, or an easy task."""
WARMING_AREA = EARLY_RUN * math.log(2.0)
"""While the rate still rises from nearly nothing no first step overshoots: twice the start on average is enough."""
EARLY_SMOOTH = 1 / 3
"""Nor is it a matter of batches: half of the steps between these points are at most so large a share of their height
(all in logs). Tasks in turn, of which the first was an easy one, jump about as far as they are high."""
BELOW_COUNT = 32
"""Points in a row under that line after which it is over."""
EXPLOSION = threshold(
    "divergence.explosion",
    10.0,
    meaning="Times its lowest level at which two rising points are an explosion. Raised, explosions are told later.",
    source="measured: in the AlgoPerf runs that end in Inf it comes three steps before Inf",
    low=2.0,
    high=1e6,
)
EXPLOSION_RUN = 2
"""Two rising points in a row, and over the line above the start: a solved task has batches of a hundred times its usual
loss."""

How = Literal["above-start", "explosion", "fallen", "regressed"]


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

    def __init__(
        self,
        above: float = ABOVE_RATIO.value,
        explosion: float = EXPLOSION.value,
        lost: float = fallen.LOST.value,
    ) -> None:
        self._ratio, self._factor, self._share = above, explosion, lost
        self._first: list[tuple[int, float]] = []
        self._early_x: int | None = None
        """First high point of the first `LEARN_NOISE`, while it may be where a divergence began."""
        self._line = math.inf
        self._initial = math.inf
        self._above: deque[tuple[int, float] | None] = deque(maxlen=WINDOW)
        self._steep: list[tuple[int, float]] = []
        """The points over the line up to now, in a row, at most as many as tell."""
        self._area = 0.0
        self._below = 0
        self._lowest = math.inf
        self._lowest_x = 0
        self._recent: deque[float] = deque(maxlen=WINDOW)
        self._exploding: list[tuple[int, float]] = []
        self._fallen = fallen.FallenDetector()
        self._fallen_line = math.inf
        self._over_line = math.inf
        """Under this the current divergence is over."""
        self._positive = True
        self.current: Divergence | None = None

    @property
    def initial(self) -> float:
        """The initial loss; Inf before it is known."""
        return self._initial

    def restart(self) -> None:
        """A planned rise of the rate: what was reached before is no measure of what comes."""
        self._lowest = self._fallen_line = math.inf
        self._recent.clear()
        self._exploding.clear()
        self._fallen.clear()

    def add(self, x: int, y: float, *, warming: bool = False) -> Divergence | None:
        """The divergence that began or ended with this point, else None.

        `warming`: the learning rate is rising to its first peak."""
        if self._positive and y <= 0:
            self._positive = False
            self._draw_fallen_line()
        early = self._learn(x, y, warming) if len(self._first) < LEARN_NOISE else None
        found = early or self._explosion(x, y) or self._above_start(x, y) or self._fall(x, y)
        current = self.current
        if current is None or (found is not None and current.how == "fallen" and found.how != "fallen"):
            return None if found is None else self._begin(found)
        high = y > self._over_line
        current.last_x, current.level = x, y
        if not high and self._below == 0:
            current.below_x = x
        self._below = 0 if high else self._below + 1
        if self._below < BELOW_COUNT:
            return None
        current.over = True
        self.current = None
        self._above.clear()
        return current

    def calm(self, y: NDArray[np.float64]) -> int:
        """How many of these finite points, from the first on, are under the lines: `extend` may take them."""
        ready = len(self._first) == LEARN_NOISE and len(self._recent) == WINDOW
        if not ready or self.current is not None or self._exploding or not len(y):
            return 0
        # The line as if the lowest of them were a level already: it can't come to lie lower than that.
        lowest = min(self._lowest, float(y.min()))
        sure = fallen.line(self._initial, lowest, self._share, logs=self._positive)
        ordinary = y <= min(self._line, sure)
        if self._positive:
            ordinary &= y > 0
        return len(y) if ordinary.all() else int(np.argmin(ordinary))

    def extend(self, x: Sequence[int], y: NDArray[np.float64]) -> None:
        """Take in points that are `calm`, exactly as `add` would one by one."""
        self._above.extend([None] * min(len(y), WINDOW))
        self._fallen.extend(y)
        self._steep.clear()
        self._area = 0.0
        self._early_x = None
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
        self._draw_fallen_line()

    def _draw_fallen_line(self) -> None:
        self._fallen_line = fallen.line(self._initial, self._lowest, self._share, logs=self._positive)

    def _begin(self, divergence: Divergence) -> Divergence:
        self.current = divergence
        self._below = 0
        known = self._line if self._line < math.inf else EARLY_RISE * self._initial
        self._over_line = self._fallen_line if divergence.how == "fallen" else known
        return divergence

    def _learn(self, x: int, y: float, warming: bool) -> Divergence | None:
        """The initial loss from the first points, the line above it once the noise is known."""
        self._first.append((x, y))
        values = [value for _, value in self._first]
        if len(values) == START:
            # In a log of every hundredth step the descent may be over by the second point.
            self._initial = max(values[0], median(values))
        if len(values) == LEARN_NOISE:
            sigma = DIFF_TO_SIGMA * median(abs(second - first) for first, second in pairwise(values))
            z = ABOVE_Z if self._positive else ABOVE_Z_SIGNED
            self._line = self._initial + max(self._ratio * abs(self._initial), z * sigma)
            above = [point if point[1] > self._line else None for point in self._first]
            self._above.extend(above[:-1])
            self._early_x = next((point[0] for point in above if point is not None), None)
            return None
        return (
            self._thrown_off(WARMING_AREA if warming else EARLY_AREA)
            if self._positive and len(values) > EARLY_RUN
            else None
        )

    def _thrown_off(self, area: float) -> Divergence | None:
        """Far above the start before the noise is known. That is the first point where the very first step has thrown
        it off: of the three that the start is taken from, the two others lie high as well."""
        found = self._early(self._initial, area)
        first = self._first[0][1]
        if found is not None or first >= self._initial:
            return found
        later = [value for _, value in self._first[1:]]
        if math.log(min(later) / first) < FIRST_GAP * math.log(max(later) / min(later)):
            return None
        found = self._early(first, FIRST_AREA)
        if found is not None:
            self._initial = first
        return found

    def _early(self, initial: float, area: float) -> Divergence | None:
        run = self._first[-EARLY_RUN:]
        while len(run) < len(self._first) and self._first[-len(run) - 1][1] > EARLY_RISE * initial:
            run = self._first[-len(run) - 1 :]
        values = [value for _, value in run]
        if min(values) <= EARLY_RISE * initial or values[-1] < median(values):
            return None
        height = sum(math.log(value / initial) for value in values)
        step = median(abs(math.log(second / first)) for first, second in pairwise(values))
        if height < area or step > EARLY_SMOOTH * height / len(values):
            return None
        x, level = run[-1][0], median(values)
        return Divergence("above-start", run[0][0], initial, self._first[0][0], level, x)

    def _above_start(self, x: int, y: float) -> Divergence | None:
        """Over the line above the start, for long or by far."""
        high = y > self._line
        self._above.append((x, y) if high else None)
        if not high:
            self._early_x = None
            self._steep.clear()
            self._area = 0.0
            return None
        if self._positive:
            self._area += math.log(y / self._line)
        if len(self._steep) < WINDOW:
            self._steep.append((x, y))
        points = [point for point in self._above if point is not None]
        steep = len(self._steep) >= STEEP_RUN and self._area >= STEEP_AREA
        if len(points) < ABOVE_COUNT and not steep:
            return None
        points = points if len(points) >= ABOVE_COUNT else self._steep
        first_x = points[0][0] if self._early_x is None else self._early_x
        level = median(value for _, value in points)
        return Divergence("above-start", first_x, self._initial, self._first[0][0], level, x)

    def _explosion(self, x: int, y: float) -> Divergence | None:
        self._recent.append(y)
        if len(self._first) < LEARN_NOISE:
            return None
        exploding = self._positive and y > max(self._factor * self._lowest, self._line)
        if exploding and (not self._exploding or y > self._exploding[-1][1]):
            self._exploding.append((x, y))
            if len(self._exploding) < EXPLOSION_RUN:
                return None
            first_x = self._exploding[0][0]
            return Divergence("explosion", first_x, self._lowest, self._lowest_x, y, x)
        self._exploding.clear()
        if y < self._lowest and (level := median(self._recent)) < self._lowest:
            self._lowest, self._lowest_x = level, x
            self._draw_fallen_line()
        return None

    def _fall(self, x: int, y: float) -> Divergence | None:
        """Back over half of its descent, and staying there."""
        first_x = self._fallen.add(x, y, self._fallen_line)
        if first_x is None or self._fallen.coming_back(self._lowest):
            return None
        level = median(self._recent)
        return Divergence("fallen", first_x, self._lowest, self._lowest_x, level, x)
