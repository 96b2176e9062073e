"""Whether an epoch brings the same batches in the same order as the one before: their losses then agree step by step.

A batch that is hard for the model is hard for it an epoch later too. Where the order is drawn anew, what stands at the
same place of two epochs has nothing to do with each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..thresholds import threshold

Floats = NDArray[np.float64]

AGREE = threshold(
    "data-order-repeats.correlation",
    0.5,
    low=0.2,
    high=1.0,
    meaning="The correlation of two epochs, step by step, from which the later one repeats the earlier. Raised, a "
    "repetition under much noise is not told.",
    source="measured: 0.71 to 1.0 in three repeated orders, at most 0.18 in 58 shuffled pairs of epochs",
)
PAIRS = threshold(
    "data-order-repeats.epochs",
    3,
    low=1,
    unit="epochs",
    meaning="Epochs in a row that must repeat the one before. Raised, it is told later.",
    source="chance reaches 0.5 once in 500 pairs of 32 steps: three in a row once in 10^8",
)
LEAST: Final = 32
"""Steps in an epoch from which on it is looked at."""
MOST: Final = 65_536
"""Steps of an epoch that are kept."""
TREND: Final = 9
"""Steps of the running median that is taken off: what the level does in an epoch is no order of batches."""
FAR: Final = 3.0
"""Noise units at which a step is cut off: a jump at the same place of each epoch is a schedule."""
OFFSETS: Final = range(5, 37)
"""Places off which the epochs are compared for contrast."""
CONTRAST: Final = 0.2
"""How much better they must agree in place than at any of these: a curve with a period of its own does not."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Two epochs of the same length beside each other."""

    first_x: int
    """The first step of the later one."""
    last_x: int
    steps: int
    correlation: float
    elsewhere: float
    """The largest correlation at another offset."""


class RepeatDetector:
    """Feed it the losses with the epoch they are of, in order; `add` returns what an epoch that has ended shows."""

    def __init__(self) -> None:
        self._epoch: float | None = None
        self._parts: list[Floats] = []
        self._count = 0
        self._first_x = self._last_x = 0
        self._before: tuple[int, Floats | None] | None = None
        """Length and residuals of the epoch before; no residuals where its losses say nothing."""

    def add(self, epoch: float, first_x: int, last_x: int, losses: Floats) -> Agreement | None:
        """Steps of one epoch that follow each other. The agreement of the epoch before this one with its own."""
        told = None
        if epoch != self._epoch:
            told = self._close()
            self._epoch, self._parts, self._count, self._first_x = epoch, [], 0, first_x
        if self._count < MOST:
            self._parts.append(losses[: MOST - self._count])
        self._count += len(losses)
        self._last_x = last_x
        return told

    def restart(self) -> None:
        """What comes does not follow what came: an epoch may begin in its middle."""
        self._epoch, self._before, self._parts, self._count = None, None, [], 0

    def _close(self) -> Agreement | None:
        before, kept = self._before, None
        if self._count >= LEAST:
            kept = residuals(np.concatenate(self._parts))
        self._before = (self._count, kept)
        if before is None or before[0] != self._count or before[1] is None or kept is None:
            return None
        here, elsewhere = agreement(before[1], kept)
        return Agreement(self._first_x, self._last_x, self._count, here, elsewhere)


def residuals(losses: Floats) -> Floats | None:
    """The losses less their trend in units of noise, cut off at both ends; None where they are constant or no numbers.

    Their mean is 0 and their mean square 1.
    """
    if not np.isfinite(losses).all():
        return None
    padded = np.pad(losses, TREND // 2, mode="edge")
    rest = losses - np.median(np.lib.stride_tricks.sliding_window_view(padded, TREND), axis=1)
    noise = 1.4826 * float(np.median(np.abs(rest)))
    if noise <= 0.0:
        return None
    rest = np.clip(rest / noise, -FAR, FAR)
    rest -= rest.mean()
    kept: Floats = rest / max(float(np.sqrt((rest**2).mean())), 1e-12)
    return kept


def agreement(before: Floats, after: Floats) -> tuple[float, float]:
    """The correlation of the residuals of two epochs in place, and the largest at another offset."""
    size = len(before)
    here = float(before @ after) / size
    others = [float(before @ np.roll(after, offset)) / size for offset in OFFSETS if offset <= size - OFFSETS.start]
    return here, max(others)
