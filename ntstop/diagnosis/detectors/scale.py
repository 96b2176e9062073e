"""The loss scale of mixed precision: finding its level, or falling without end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

SETTLED = 20
"""Steps in a row that were not skipped: the scale has found its level."""
STARTING = 24
"""Skips in a row from the first step on that no start needs: 16 halvings bring 65,536 to 1."""
SMALL = 128.0
"""Float16 has 11 bits under its smallest normal number, 6e-5: a scale above this keeps most gradients in its range."""
KEPT = 64
"""Readings of the scale in a fall that are kept for the evidence."""


@dataclass(slots=True)
class Fall:
    """Steps that were skipped, in a row, from `first_x` on."""

    first_x: int
    skipped: int = 0
    last_x: int = 0
    level: float | None = None
    """The scale before it; None: it was not read."""
    readings: list[tuple[int, float]] = field(default_factory=list)


class ScaleWatch:
    """Feed it every step with its scale and whether it was skipped; `fall` is the present run of skips, or None."""

    def __init__(self) -> None:
        self.fall: Fall | None = None
        self.peak: tuple[int, float] | None = None
        """Step and value of the largest scale since it has settled."""
        self.last: tuple[int, float] | None = None
        self.settled = False
        self.good = 0
        """Steps in a row that were not skipped."""

    def add(
        self, x: Sequence[int], scales: Sequence[float | None] | None, skips: Sequence[float | None] | None
    ) -> None:
        """The steps of a block."""
        if skips is None or not any(skips):
            self._calm(x, scales)
            return
        for index, at in enumerate(x):
            self._point(at, None if scales is None else scales[index], bool(skips[index]))

    def _calm(self, x: Sequence[int], scales: Sequence[float | None] | None) -> None:
        """Nothing was skipped."""
        self.good += len(x)
        self.settled = self.settled or self.good >= SETTLED
        self.fall = None
        if scales is not None and scales[0] is not None and scales.count(scales[0]) == len(scales):
            self.last = (x[-1], scales[0])
            self._see_peak((x[0], scales[0]))
            return
        known = [(at, scale) for at, scale in zip(x, scales or (), strict=False) if scale is not None]
        if known:
            self.last = known[-1]
            self._see_peak(max(known, key=lambda pair: pair[1]))

    def _point(self, x: int, scale: float | None, skipped: bool) -> None:
        before = self.last
        if scale is not None:
            self.last = (x, scale)
        if not skipped:
            self.good += 1
            self.settled = self.settled or self.good >= SETTLED
            self.fall = None
            if scale is not None:
                self._see_peak((x, scale))
            return
        self.good = 0
        if self.fall is None:
            self.fall = Fall(x, level=scale if before is None else before[1])
        fall = self.fall
        fall.skipped += 1
        fall.last_x = x
        if scale is not None and len(fall.readings) < KEPT:
            fall.readings.append((x, scale))

    def _see_peak(self, at: tuple[int, float]) -> None:
        if self.settled and (self.peak is None or at[1] > self.peak[1]):
            self.peak = at

    def endless(self, skips: float) -> bool:
        """More steps in a row were skipped than a scale needs to find its level."""
        fall = self.fall
        return fall is not None and fall.skipped >= (skips if self.settled else max(skips, STARTING))

    def sunk(self, halvings: float) -> bool:
        """The scale is so many halvings under the level it once had, and small."""
        if self.peak is None or self.last is None:
            return False
        return self.last[1] <= min(SMALL, math.ldexp(self.peak[1], -int(halvings)))
