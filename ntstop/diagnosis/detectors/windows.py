"""Accumulation windows: how many backward passes make a step, how often gradients are cleared, and how norms grow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

RISES = 0.75
"""Share of the first readings that must be above the one before: noise alone gives a half."""
READINGS = 4
FIRST = 8
"""Readings that are looked at. The probe looks at steps 0, 1, 2, 4 and 8 of every run; with one a step these go
on with 16, 32 and 64."""
REACH = 128
"""Steps after which a norm has reasons of its own."""


class PilingUp:
    """Does the gradient norm grow as it does when gradients are added to those of all steps before?

    The norm of a sum of t gradients lies between √t times one (they have nothing in common) and t times one.
    """

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self.readings: list[tuple[int, float]] = []
        """Step and norm of the first ones."""

    @property
    def known(self) -> bool:
        """There are enough readings to tell."""
        return len(self.readings) >= READINGS

    def add(self, x: int, norm: float) -> None:
        """A reading; kept where the steps since the first have doubled, so that a few reach far."""
        readings = self.readings
        if norm <= 0.0 or self.complete:
            return
        if not readings:
            readings.append((x, norm))
            return
        since, last = x - readings[0][0], readings[-1][0] - readings[0][0]
        if 2 * last <= since <= REACH and since > last:
            readings.append((x, norm))

    @property
    def complete(self) -> bool:
        """No more readings are kept."""
        return len(self.readings) >= FIRST

    @property
    def grows(self) -> bool:
        """It has grown by `factor`, from reading to reading, and at least as fast as the root of the steps."""
        if not self.known:
            return False
        norms = [norm for _, norm in self.readings]
        rises = sum(later > earlier for earlier, later in pairwise(norms))
        (first_x, first), (last_x, last) = self.readings[0], self.readings[-1]
        needed = max(self._factor, (last_x - first_x + 1) ** 0.5)
        return rises >= RISES * (len(norms) - 1) and last >= needed * first


class WindowCounter:
    """Counts steps by their number of backward passes; remembers the first and the newest odd ones."""

    def __init__(self) -> None:
        self.steps = 0
        self._counts: dict[int, int] = {}
        self._first: dict[int, int] = {}
        self._last: dict[int, int] = {}

    def add(self, x: Sequence[int], micro: Sequence[float | None]) -> None:
        """The steps of a block."""
        first = micro[0]
        if first is not None and math.isfinite(first) and micro.count(first) == len(micro):
            self._take(int(first), len(micro), x[0], x[-1])
            return
        for at, count in zip(x, micro, strict=True):
            if count is not None and math.isfinite(count):
                self._take(int(count), 1, at, at)

    def _take(self, micro: int, count: int, first_x: int, last_x: int) -> None:
        if micro <= 0:
            return
        self.steps += count
        self._counts[micro] = self._counts.get(micro, 0) + count
        self._first.setdefault(micro, first_x)
        self._last[micro] = last_x

    @property
    def usual(self) -> int:
        """Backward passes in most steps; 0 before the first."""
        return max(self._counts, key=lambda micro: self._counts[micro], default=0)

    def count(self, micro: int) -> int:
        """Steps of so many backward passes."""
        return self._counts.get(micro, 0)

    def odd(self) -> tuple[int, int, int, int] | None:
        """(backward passes, steps, first and last step) of the commonest unusual window; None: all the same."""
        usual = self.usual
        others = [micro for micro in self._counts if micro != usual]
        if not others:
            return None
        micro = max(others, key=lambda micro: self._counts[micro])
        return micro, self._counts[micro], self._first[micro], self._last[micro]
