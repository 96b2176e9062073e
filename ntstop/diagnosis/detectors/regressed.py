"""A loss that was better once: it has risen and stays there."""

from __future__ import annotations

import math

from .divergence import Divergence
from .levels import Block, Levels, lowest, pooled

BLOCKS = 32
"""Blocks of `Levels` that must exist; a curve of fewer than 48 points is too short for "stuck"."""
POINTS = 48
STRETCH = 24
"""Points that the late stretch must at least hold: in a short run a quarter is a bump."""
RISE = 0.05
Z = 6.0
"""The last quarter of the run lies 5 % and 6 standard errors over the best eighth. Excursions of healthy runs that
come back by themselves last under a tenth of the run."""
SHARE = 0.75
"""Share of the late blocks that must lie over half of the rise: a bump lifts the mean, but not most of the blocks."""


def regressed(levels: Levels, initial: float) -> Divergence | None:
    """The loss was better in its best eighth than in its whole last quarter; None when not, or too early to say.

    Rise is relative to the best level for losses that stay positive, to the descent from `initial` otherwise.
    """
    blocks = levels.blocks
    if len(blocks) < BLOCKS or levels.count < POINTS:
        return None
    quarter, eighth = max(len(blocks) // 4, math.ceil(STRETCH / levels.size)), len(blocks) // 8
    late_mean, late_variance, late_count = pooled(blocks[-quarter:])
    start = lowest(blocks, eighth, max(1, eighth // 2), len(blocks) - quarter - eighth)
    if start is None:
        return None
    mean, variance, count = pooled(blocks[start : start + eighth])
    rise = late_mean - mean
    scale = abs(mean + levels.origin) if mean + levels.origin > 0 else abs(initial - mean - levels.origin)
    error = math.sqrt(late_variance / late_count + variance / count)
    if rise <= RISE * scale or rise <= Z * error:
        return None
    if sum(block.mean > mean + rise / 2 for block in blocks[-quarter:]) < SHARE * quarter:
        return None
    first_x = _left(blocks[start + eighth :], mean + rise / 2)
    middle = blocks[start + eighth // 2]
    return Divergence("regressed", first_x, mean + levels.origin, middle.x1, late_mean + levels.origin, blocks[-1].x1)


def _left(blocks: list[Block], line: float) -> int:
    """First step of the first block whose mean is above `line`."""
    return next((block.x0 for block in blocks if block.mean > line), blocks[-1].x0)
