"""The learning rate as a suspect: a rate of zero while training goes on, and a rate that leaps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NOTHING = 1e-6
"""Of the peak, under which a rate moves nothing: float32 has 7 digits, and healthy updates are 1e-3 of the weights."""
GAP = 16
GAP_FACTOR = 4
"""Steps between two read rates, and times the gap before it, up to which a rise is a leap: where a log skips 400 steps
of a warm-up the rate has risen on its way."""
PEAK_SLACK = 1.2
"""A rise to no more than this times the peak so far is a restart of a schedule."""


@dataclass(slots=True)
class Zero:
    """The rate has been (next to) nothing from `first_x` to `last_x`; `peak` 0: there never was another rate."""

    first_x: int
    last_x: int
    peak: float = 0.0


@dataclass(frozen=True, slots=True)
class Leap:
    """The rate went from `before` to `after` after the step `x0`, at `x` at the latest (not every rate is read)."""

    x0: int
    x: int
    before: float
    after: float
    peak: float
    """Largest rate before the leap."""
    level_x: int
    """Since when it had been `before`."""
    settled: bool
    """The rate had moved before: the leap does not leave the first level of the run."""

    @property
    def restart(self) -> bool:
        """It leads back to where the rate has been already."""
        return self.after <= PEAK_SLACK * self.peak


class ScheduleWatch:
    """Feed it the largest rate of all groups, block by block; points whose rate was not read are left out."""

    def __init__(self, leap: float) -> None:
        self._leap = leap
        self.peak = 0.0
        self.last: float | None = None
        self.points = 0
        self.zero: Zero | None = None
        """The stretch of nothing that is going on."""
        self._last_x = 0
        self._gap = 0
        self._level_x = 0
        self._settled = False

    def add(self, x: Sequence[int], rates: NDArray[np.float64]) -> list[Leap]:
        """Take in the rates of the steps `x`; the leaps among them."""
        if not len(rates):
            return []
        lowest, highest = float(rates.min()), float(rates.max())
        last = rates[0] if self.last is None else self.last
        quiet = min(last, lowest) > 0.0 and max(last, highest) < self._leap * min(last, lowest)
        if not quiet or lowest <= NOTHING * max(self.peak, highest):
            points = (self._point(at, rate) for at, rate in zip(x, rates.tolist(), strict=True))
            return [leap for leap in points if leap is not None]
        # It stays, or moves by less than a leap: the usual block.
        if self.last is None:
            self._level_x = x[0]
        if not lowest == highest == last:
            self._settled = True
            self._level_x = x[-1]
        self.zero = None
        self.points += len(rates)
        self._gap = x[-1] - (x[-2] if len(x) > 1 else self._last_x)
        self.peak, self.last, self._last_x = max(self.peak, highest), float(rates[-1]), x[-1]
        return []

    def _point(self, x: int, rate: float) -> Leap | None:
        if not math.isfinite(rate):
            return None
        self.points += 1
        leap, last = None, self.last
        gap = x - self._last_x
        near = gap <= max(GAP, GAP_FACTOR * self._gap)
        if near and last is not None and last > 0.0 and rate >= self._leap * last:
            leap = Leap(self._last_x, x, last, rate, self.peak, self._level_x, self._settled)
        if last is None or rate != last:
            self._settled = last is not None
            self._level_x = x
        self.peak = max(self.peak, rate)
        self.last, self._last_x, self._gap = rate, x, gap
        if rate > NOTHING * self.peak:
            self.zero = None
        else:
            if self.zero is None:
                self.zero = Zero(x, x, self.peak)
            self.zero.last_x = x
        return leap


def known(rates: Sequence[float | None], x: Sequence[int]) -> tuple[list[int], NDArray[np.float64]]:
    """Only the points whose rate was read."""
    pairs = [(at, rate) for at, rate in zip(x, rates, strict=True) if rate is not None]
    return [at for at, _ in pairs], np.array([rate for _, rate in pairs], np.float64)
