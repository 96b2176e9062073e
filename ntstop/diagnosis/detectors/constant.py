"""A loss that has stopped changing at all: the same number again and again, to the last bit."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..thresholds import threshold

SAME = threshold(
    "plateau.same",
    32.0,
    unit="points",
    meaning="Points in a row with exactly the same loss. Raised, it is told later.",
    source="measured: in 140 healthy AlgoPerf runs no two neighbours are equal; a loss that is logged in three digits "
    "or repeated between two updates has shorter runs of equal points before, which are looked at too",
    low=4.0,
)
BEFORE = 32
DISTINCT = 0.75
"""Share of the points before it that differ from their neighbour: else repeating is what this log does."""


@dataclass(frozen=True, slots=True)
class Constant:
    """The loss has been `level` since `first_x`, `points` times."""

    first_x: int
    last_x: int
    points: int
    level: float


@dataclass(slots=True)
class ConstantDetector:
    """Feed it every finite point; `standing` is the stretch that is going on once it is long enough."""

    same: int = int(SAME.value)
    _last: float | None = None
    _first_x: int = 0
    _points: int = 0
    _moved: deque[bool] = field(default_factory=lambda: deque(maxlen=BEFORE))
    """Whether each of the points before this stretch differed from its neighbour."""

    def add(self, x: int, y: float) -> Constant | None:
        """The constant stretch, at the moment when it is long enough."""
        if y != self._last:
            self._end(x, y)
            return None
        self._points += 1
        if self._points != self.same or len(self._moved) < BEFORE or sum(self._moved) < DISTINCT * BEFORE:
            return None
        return Constant(self._first_x, x, self._points, y)

    @property
    def repeats(self) -> bool:
        """Whether the last point was the same as the one before it."""
        return self._points > 1

    def calm(self, y: NDArray[np.float64]) -> int:
        """How many of these points, from the first on, differ from their neighbours: `extend` may take them."""
        if self._last is None or not len(y):
            return 0
        moved = np.empty(len(y), bool)
        moved[0] = y[0] != self._last
        np.not_equal(y[1:], y[:-1], out=moved[1:])
        return len(y) if moved.all() else int(np.argmin(moved))

    def extend(self, x: Sequence[int], y: NDArray[np.float64]) -> None:
        """Take in points that are `calm`, exactly as `add` would one by one."""
        self._end(x[0], float(y[0]))
        self._moved.extend([True] * min(len(y) - 1, BEFORE))
        self._last, self._first_x = float(y[-1]), x[-1]

    def _end(self, x: int, y: float) -> None:
        """The stretch is over: it counts as one point that moved, and as many that did not."""
        if self._points:
            self._moved.append(True)
            self._moved.extend([False] * min(self._points - 1, BEFORE))
        self._last, self._first_x, self._points = y, x, 1
