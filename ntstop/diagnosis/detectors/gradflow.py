"""Which layers a gradient reaches: never, with nothing but zeros, or ever weaker toward the input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Flags = NDArray[np.bool_]

Values = Sequence[float | None]


def numbers(values: Values | None, size: int) -> Floats:
    """A column as numbers, NaN where nothing was measured."""
    if values is None:
        return np.full(size, np.nan)
    return np.array([np.nan if value is None else value for value in values], np.float64)


TURNS: Final = 64
"""Samples in which a layer must be without a gradient where layers are used in turn: one that is used in one of 16
steps is missed by all of them once in 60 times."""


class GradientFlow:
    """Feed it the samples of one schema; the counts are of samples in a row, up to the newest.

    A layer counts only in samples in which its optimizer stepped: its norm was read, or its gradient was.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.samples = 0
        self.ungraded: Counts = np.zeros(size, np.int64)
        """Samples in which the parameter was looked at, had no gradient at all and had not moved: optimizers pass over
        what has none, and a sparse gradient, or one that is used and freed within backward, cannot be measured."""
        self.zero: Counts = np.zeros(size, np.int64)
        """Samples in which every element of its gradient was 0."""
        self.live: Counts = np.zeros(size, np.int64)
        """Samples in which it had a gradient that was not 0 (NaN and Inf are no zeros)."""
        self.since: Counts = np.zeros(size, np.int64)
        """Step of the first sample of the state that each layer is in."""
        self.last_x = 0
        self.conditional = False
        """A layer had a gradient after a sample without: which are used depends on the input or on chance (random
        paths, heads in turn), and one that was not may just not have had its turn."""
        self._idle: Flags = np.zeros(size, np.bool_)
        """Layers without one in a sample after the first."""
        self._norm: Floats = np.full(size, np.nan)
        """Newest parameter norms."""

    def add(self, x: int, gradients: Values | None, parameters: Values | None, ratios: Values | None = None) -> None:
        """One sample: gradient norms, parameter norms and update ratios by layer."""
        grad, norm = numbers(gradients, self.size), numbers(parameters, self.size)
        moved = (np.isfinite(self._norm) & np.isfinite(norm) & (norm != self._norm)) | (numbers(ratios, self.size) > 0)
        self._norm = np.where(np.isfinite(norm), norm, self._norm)
        measured = np.array([value is not None for value in gradients or [None] * self.size], np.bool_)
        looked = measured | np.isfinite(norm)
        live = measured & (grad != 0.0)
        states = (
            (self.ungraded, looked & ~measured & ~moved),
            (self.zero, measured & (grad == 0.0)),
            (self.live, live),
        )
        self.conditional |= bool((live & self._idle).any())
        # In the first step much has none that has one ever after: LoRA, residual branches that start at zero.
        if self.samples:
            self._idle |= looked & ~live & ~moved
        for counts, now in states:
            self.since[now & (counts == 0)] = x
            counts[now] += 1
            counts[looked & ~now] = 0
        self.samples += 1
        self.last_x = x

    def enough(self, counts: Counts, least: float) -> Flags:
        """The layers that have been in a state for long enough: `least` samples in a row, or longer where layers are
        used in turn."""
        return counts >= (max(least, TURNS) if self.conditional else least)


def decades(gradients: Floats, parameters: Floats) -> tuple[float, float]:
    """By how many powers of ten the gradient per weight falls from the last third of the layers to the first, and how
    steadily (the correlation of its logarithm with the depth, -1 to 1). Layers in their order from the input on.

    (0, 0) for fewer than four layers.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log10(gradients / parameters)
    known = np.isfinite(ratio)
    if known.sum() < 4:
        return 0.0, 0.0
    ratio = ratio[known]
    third = max(1, len(ratio) // 3)
    fall = float(np.median(ratio[-third:]) - np.median(ratio[:third]))
    if ratio.std() == 0.0:
        return fall, 0.0
    depth = np.arange(len(ratio), dtype=np.float64)
    return fall, float(np.corrcoef(depth, ratio)[0, 1])
