"""Where a curve has been: a bounded record of levels by step, to look up what it was like at a step."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from statistics import median
from typing import Final

import numpy as np
from numpy.typing import NDArray

MAX_POINTS: Final = 512
POINT: Final = 16
"""Values in one point at least: a block of steps gives one, small blocks are put together."""


@dataclass(frozen=True, slots=True)
class Level:
    """The median of some values up to the step `x`."""

    x: int
    value: float


class Trail:
    """Feed it blocks; the newer half is kept finer than the older."""

    def __init__(self) -> None:
        self.points: list[Level] = []
        self._open: list[float] = []

    def add(self, x: int, values: NDArray[np.float64]) -> None:
        """Finite values of a block that ends at the step `x`."""
        self._open.extend(values.tolist())
        if len(self._open) < POINT:
            return
        self.points.append(Level(x, median(self._open)))
        self._open = []
        if len(self.points) > MAX_POINTS:
            half = MAX_POINTS // 2
            self.points[:half] = self.points[:half:2]

    def rewind(self, x: int) -> None:
        """Forget what came after the step `x`: it is done again."""
        self._open = []
        del self.points[bisect_right([point.x for point in self.points], x) :]

    def around(self, x: int, count: int = 3) -> float | None:
        """The level near the step `x`: of the last `count` points up to it; None when there is none."""
        at = bisect_right([point.x for point in self.points], x)
        near = self.points[max(0, at - count) : at] or self.points[:1]
        return median(point.value for point in near) if near else None

    @property
    def first(self) -> Level | None:
        """Where it began."""
        return self.points[0] if self.points else None

    def noise(self) -> float:
        """One sigma of a point, from the newest neighbours."""
        values = [point.value for point in self.points[-64:]]
        if len(values) < 3:
            return 0.0
        return 1.4826 / 2**0.5 * float(np.median(np.abs(np.diff(np.array(values)))))
