"""A gradient norm that leaves its level by orders of magnitude, and stays there."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np
from numpy.typing import NDArray

FIRST = 16
"""Readings whose median is the first level."""
FOLLOW = 1.0 / 64.0
"""Share of the way to a reading that the level goes: it takes a hundred readings to get used to ten times as much."""
ROW = 5
"""Readings in a row over the bound: a spike of one or two steps is none. On the development curves 3 in a row at 10
times the level find two of the diverged runs and no healthy one."""
BACK = 3.0
CALM = 8
"""Readings in a row under three times the old level, after which it is over."""
CONTEXT = 3


@dataclass(slots=True)
class Growth:
    """The norm went from `level` to `peak`, from `first_x` on."""

    first_x: int
    level: float
    before: list[tuple[int, float]]
    peak_x: int
    peak: float
    last_x: int
    readings: list[tuple[int, float]] = field(default_factory=list)
    """The first ones over the bound."""
    over: bool = False


class GrowthWatch:
    """Feed it every finite reading of the norm; `growth` is what goes on now."""

    def __init__(self, factor: float) -> None:
        self._bound = math.log(factor)
        self._first: list[float] = []
        self._level = 0.0
        """Logarithm; frozen while a growth goes on."""
        self._before: deque[tuple[int, float]] = deque(maxlen=CONTEXT)
        self._row: list[tuple[int, float]] = []
        self._calm = 0
        self.growth: Growth | None = None

    def add(self, x: Sequence[int], norms: NDArray[np.float64]) -> bool:
        """Take in the readings of a block, all above 0; whether something has begun, gone on or ended."""
        if not len(norms):
            return False
        if len(self._first) == FIRST and self.growth is None and not self._row:
            logs = np.log(norms)
            if float(logs.max()) <= self._level + self._bound:
                steps = np.clip(logs - self._level, -1.0, 1.0)
                self._level += float(steps.mean()) * (1.0 - (1.0 - FOLLOW) ** len(norms))
                self._before.extend(zip(x[-CONTEXT:], norms[-CONTEXT:].tolist(), strict=True))
                return False
        changed = False
        for at, norm in zip(x, norms.tolist(), strict=True):
            changed |= self._point(at, norm)
        return changed

    def _point(self, x: int, norm: float) -> bool:
        log = math.log(norm)
        if len(self._first) < FIRST:
            self._first.append(log)
            self._level = median(self._first)
            self._before.append((x, norm))
            return False
        high = log > self._level + self._bound
        growth = self.growth
        if growth is not None:
            self._calm = self._calm + 1 if log < self._level + math.log(BACK) else 0
            growth.last_x = x
            if norm > growth.peak:
                growth.peak_x, growth.peak = x, norm
            if self._calm >= CALM:
                growth.over = True
            return True
        if not high:
            self._row.clear()
            self._level += FOLLOW * max(-1.0, min(1.0, log - self._level))
            self._before.append((x, norm))
            return False
        self._row.append((x, norm))
        if len(self._row) < ROW:
            return False
        peak_x, peak = max(self._row, key=lambda pair: pair[1])
        self.growth = Growth(
            self._row[0][0], math.exp(self._level), list(self._before), peak_x, peak, x, list(self._row)
        )
        self._row.clear()
        self._calm = 0
        return True

    def settle(self) -> None:
        """The growth that is over has been told."""
        self.growth = None
