"""A loss that was better once: it has risen and stays there."""

from __future__ import annotations

import math
from itertools import groupby

import numpy as np

from ..thresholds import threshold
from .divergence import Divergence
from .levels import Block, Levels, lowest, pooled

POINTS = 32
"""A curve of fewer points is too short for "stuck"."""
STRETCHES = ((1 / 8, 24, 1.0, 1.0), (1 / 25, 40, 1.0, 2.0), (1 / 4, 12, 2.0, 2.0))
"""Late stretches that are looked at: a share of the run, at least so many points, and how many times the usual errors
and the usual rise they must lie over the best: what is small must be seen for longer, as the hills of an epoch are.
1/25 leaves a fifth of the 5 % of a run within which it should be told. Excursions of healthy runs that came back by
themselves lasted 30 points at most without coming down (wmt_glu_tanh, AlgoPerf logs); 24 are enough only while that is
an eighth of the run, 12 while it is a quarter and by far: of few points the best eighth is a matter of luck."""
GRADUAL = (1 / 25, 16, 1.25, 2.0)
"""And this one where there is no spike: every healthy excursion of 12 to 24 points began with one."""
RISE = threshold(
    "divergence.rise",
    0.05,
    meaning="Share of its best level by which the loss must have risen to be called fallen back. Raised, small rises "
    "are not told.",
    source="measured: no healthy AlgoPerf run rises at all under the other conditions, from 4 standard errors on; the "
    "stuck ones rose 12 %",
    low=0.001,
    high=10.0,
)
OF_DESCENT = 0.005
"""And half a percent of the whole descent: at a loss near 0 five percent of it are nothing."""
Z = threshold(
    "divergence.errors",
    5.0,
    unit="standard errors",
    meaning="Standard errors by which the late stretch must lie over the best one. Raised, small and noisy rises are "
    "not told.",
    source="measured: of flat curves of 360 points with a noise of a fifth 5 % are called at 4 and 0.7 % at 5, since "
    "each point is looked at and the best eighth is one by luck; from 3.5 to 7 the AlgoPerf runs change nothing",
    low=2.0,
    high=100.0,
)
SHARE = 0.85
"""Share of the late blocks that must lie over half of the rise: a bump lifts the mean, but not most of the blocks."""
COMING_BACK = 0.25
"""When the second half of the stretch lies lower than the first by this share of the rise, it is on its way back."""
BEFORE = 2
"""Excursions as high as this one that came back, after which one more is the habit of the curve (epochs)."""
AS_HIGH = 0.75
MEMORY = 3.0
MEMORY_BLOCKS = 16
"""A log of running means, or of a stream whose difficulty wanders, has noise that remembers itself: the later half of
the blocks up to the late stretch, less their trend, tells how much."""


def regressed(
    levels: Levels,
    initial: float,
    *,
    sudden: bool = True,
    least: float = RISE.value,
    errors: float = Z.value,
) -> Divergence | None:
    """The loss was better in its best eighth than in a whole late stretch; None when not, or too early to say.

    `least` is relative to the best level for losses that stay positive, to the descent from `initial` otherwise.
    `sudden`: there is a spike, or has just been one.
    """
    if levels.count < POINTS:
        return None
    blocks = levels.blocks
    for share, points, strict, high in STRETCHES if sudden else (*STRETCHES, GRADUAL):
        late = max(math.ceil(share * len(blocks)), math.ceil(points / levels.size), 4)
        found = _stuck(blocks, late, levels.origin, initial, high * least, strict * errors)
        if found is not None:
            return found
    return None


def _stuck(
    blocks: list[Block], late: int, origin: float, initial: float, least: float, errors: float
) -> Divergence | None:
    """Whether the last `late` blocks lie over the best eighth before them, and stay there."""
    eighth = max(1, len(blocks) // 8)
    start = lowest(blocks, eighth, max(1, eighth // 2), len(blocks) - late - eighth)
    if start is None:
        return None
    late_mean, late_variance, late_count = pooled(blocks[-late:])
    mean, variance, count = pooled(blocks[start : start + eighth])
    rise, descent = late_mean - mean, abs(initial - mean - origin)
    scale = mean + origin if mean + origin > 0 else descent
    error = math.sqrt(late_variance / late_count + variance / count)
    if rise <= max(least * scale, OF_DESCENT * descent, errors * error):
        return None
    if rise <= errors * error * memory(blocks[:-late]):
        return None
    middle = mean + rise / 2
    if sum(block.mean > middle for block in blocks[-late:]) < SHARE * late:
        return None
    half = late // 2
    if pooled(blocks[-late:-half])[0] - pooled(blocks[-half:])[0] > COMING_BACK * rise:
        return None
    if _habit(blocks[:-late], mean, rise, max(2, late // 4)):
        return None
    first_x = _left(blocks[start + eighth :], middle)
    best = blocks[start + eighth // 2]
    return Divergence("regressed", first_x, mean + origin, best.x1, late_mean + origin, blocks[-1].x1)


def memory(blocks: list[Block]) -> float:
    """How many times larger errors of a mean are than of independent points, from 1 to `MEMORY`.

    By von Neumann's ratio of the squared steps between neighbours to the variance, around a line: of noise in which
    neighbours go together by r, errors are sqrt((1 + r) / (1 - r)) times as large (Bartlett 1946). One sigma of doubt
    goes to r = 0.
    """
    known = blocks[-max(MEMORY_BLOCKS, len(blocks) // 2) :]
    count = len(known)
    if count < MEMORY_BLOCKS:
        return 1.0
    x, y = np.arange(count) - (count - 1) / 2, np.array([block.mean for block in known])
    y -= y.mean() + x * float(x @ y) / float(x @ x)
    variance, steps = float(np.mean(y * y)), float(np.mean(np.diff(y) ** 2))
    ratio = min(1.0, steps / (2 * variance) + 1 / math.sqrt(count)) if variance > 0 else 1.0
    return min(MEMORY, math.sqrt((2 - ratio) / ratio))


def _habit(blocks: list[Block], mean: float, rise: float, length: int) -> bool:
    """Whether the curve has been this high, for `length` blocks at least, and come back from it, several times."""
    middle, number, came_down = mean + rise / 2, 0, False
    for high, group in groupby(blocks, lambda block: block.mean > middle):
        run = list(group)
        if high:
            number += came_down and len(run) >= length and pooled(run)[0] > mean + AS_HIGH * rise
        else:
            came_down = True
    # The last one may be the beginning of this one.
    number -= bool(blocks) and blocks[-1].mean > middle and number > 0
    return number >= BEFORE


def _left(blocks: list[Block], line: float) -> int:
    """First step of the first block whose mean is above `line`."""
    return next((block.x0 for block in blocks if block.mean > line), blocks[-1].x0)
