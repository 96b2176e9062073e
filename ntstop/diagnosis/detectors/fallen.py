"""A loss that has lost half of what it had learned within a few points."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from ..thresholds import threshold

LOST = threshold(
    "divergence.lost",
    0.5,
    meaning="share of the descent (of the log loss where it is positive) that must be lost; higher is quieter",
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
    """Feed it whether each point is over the line of its time."""

    _flags: deque[int | None] = field(default_factory=lambda: deque(maxlen=RUN + BEFORE))
    """The step of each point over the line, None for one under it."""

    def add(self, x: int, high: bool) -> int | None:
        """The step at which the loss rose over the line when it has stayed there, else None."""
        self._flags.append(x if high else None)
        if not high or len(self._flags) < RUN + HIGH:
            return None
        flags = list(self._flags)
        late, before = flags[-RUN:], flags[:-RUN]
        known = [at for at in late if at is not None]
        if len(known) < HIGH or sum(at is not None for at in before) > BEFORE_SHARE * len(before):
            return None
        return known[0]

    def extend(self, count: int) -> None:
        """`count` points under the line."""
        self._flags.extend([None] * min(count, RUN + BEFORE))

    def clear(self) -> None:
        """What comes is measured against itself."""
        self._flags.clear()
