"""A loss that has lost half of what it had learned within a few points."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

import numpy as np
from numpy.typing import NDArray

from ..thresholds import threshold
from .baseline import DIFF_TO_SIGMA

LOST = threshold(
    "divergence.lost",
    0.5,
    meaning="Share of the descent (of the log loss where it is positive) that must be lost. Raised, only deeper "
    "falls are told.",
    source="measured: at 0.4 to 0.8 at most 9 of 12 neighbouring points of a healthy AlgoPerf run lie over this line",
    low=0.1,
    high=1.0,
)
RUN = 12
HIGH = 11
"""11 of the last 12 points over the line; healthy runs reach 8 at half of the descent."""
BEFORE = 36
BEFORE_SHARE = 0.25
"""And at most a quarter of the 36 points before them: noise that is as wide as the descent is over it half the time."""
BEFORE_NOW = 0.5
"""And at most half of them over the line of now, which may have come down since."""
STANDS_OUT = 1.5
"""And the median of the 12 lies so many sigmas of one point, from the steps between neighbours, over that of the 36:
four standard errors of the two."""
COMING_BACK = 0.25
"""While the later half of the 12 points lies lower than the first by this share of its height, it is on its way back: a
spike that heals is no loss that is lost."""
LEAST = math.log(1.25)
"""A descent of less is none that can be lost (positive losses); the same 25 % over which a spike begins."""


def line(initial: float, lowest: float, share: float, *, logs: bool) -> float:
    """The loss over which `share` of the descent from `initial` to `lowest` is lost; Inf when there was no descent."""
    if not -math.inf < lowest < initial < math.inf:
        return math.inf
    if not logs:
        return lowest + share * (initial - lowest)
    if lowest <= 0 or math.log(initial / lowest) < LEAST:
        return math.inf
    return lowest * math.exp(share * math.log(initial / lowest))


@dataclass(slots=True)
class FallenDetector:
    """Feed it each point and the line of its time."""

    _points: deque[tuple[int | None, float]] = field(default_factory=lambda: deque(maxlen=RUN + BEFORE))
    """The step of each point over the line of its time, None for one under it; and its loss."""

    def add(self, x: int, y: float, line: float) -> int | None:
        """The step at which the loss rose over the line when it has stayed there, else None."""
        high = y > line
        self._points.append((x if high else None, y))
        if not high or len(self._points) < RUN + HIGH:
            return None
        points = list(self._points)
        known = [(at, value) for at, value in points[-RUN:] if at is not None]
        before = points[:-RUN]
        if len(known) < HIGH or sum(at is not None for at, _ in before) > BEFORE_SHARE * len(before):
            return None
        # A lucky stretch draws a line under which the curve has never been for long.
        usual = [value for _, value in before]
        if sum(value > line for value in usual) > BEFORE_NOW * len(before):
            return None
        noise = DIFF_TO_SIGMA * median(abs(second - first) for first, second in pairwise(usual))
        if median(value for _, value in points[-RUN:]) - median(usual) < STANDS_OUT * noise:
            return None
        return known[0][0]

    def coming_back(self, level: float) -> bool:
        """Whether the last points are falling back to `level`, from which they rose."""
        late = [value for _, value in self._points][-RUN:]
        first, later = median(late[: RUN // 2]), median(late[RUN // 2 :])
        return later - level < (1 - COMING_BACK) * (first - level)

    def extend(self, y: NDArray[np.float64]) -> None:
        """Points under the line of their time."""
        self._points.extend((None, value) for value in y[-RUN - BEFORE :].tolist())

    def clear(self) -> None:
        """What comes is measured against itself."""
        self._points.clear()
