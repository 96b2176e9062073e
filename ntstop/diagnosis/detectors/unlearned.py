"""A loss that has never got going: still where it began, or above."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .levels import Levels, lowest, pooled

WORSE_POINTS = 64
WORSE_RATIO = 0.01
WORSE_Z = 4.0
"""64 points in, the last quarter lies 1 % and four times the noise of a point over the initial loss (which is little
more than one point itself): it went the wrong way. On the development curves that ratio is 14 for the ones that never
learned, and at most 2 for a healthy one, whose warm-up takes 85 points."""
FLAT_POINTS = 500
FLAT_RATIO = 0.01
"""500 points in, no eighth of the run is 1 % under the initial loss. ImageNet ViT gains that in 60 to 100 steps of
warm-up, a language model in 100."""
FLAT_SHARE = 0.02
"""Where the length of the run is known: at least 2 % of it must be over, as a long run has a long warm-up."""
NOTHING = 1e-6
"""An initial loss under this is a metric that means nothing (or a solved problem), not a failure to learn."""


@dataclass(frozen=True, slots=True)
class Unlearned:
    """`initial` loss at `initial_x`, `level` over the last quarter of the run, `best` over its best eighth."""

    initial: float
    initial_x: int
    level: float
    best: float
    last_x: int
    points: int


def unlearned(levels: Levels, initial: float, *, total_points: int | None = None) -> Unlearned | None:
    """What is known once the curve is as good as where it started, for losses that stay positive."""
    blocks = levels.blocks
    if levels.count < WORSE_POINTS or len(blocks) < 16 or not NOTHING < initial < math.inf:
        return None
    quarter, eighth = len(blocks) // 4, max(1, len(blocks) // 8)
    late_mean, late_variance, _ = pooled(blocks[-quarter:])
    level = late_mean + levels.origin
    start = lowest(blocks, eighth, eighth, len(blocks) - eighth) or 0
    best = pooled(blocks[start : start + eighth])[0] + levels.origin
    if best <= 0:
        return None
    found = Unlearned(initial, blocks[0].x0, level, best, blocks[-1].x1, levels.count)
    worse = level - initial
    if worse > WORSE_RATIO * initial and worse > WORSE_Z * math.sqrt(late_variance):
        return found
    patience = max(FLAT_POINTS, int(FLAT_SHARE * (total_points or 0)))
    return found if levels.count >= patience and best > (1 - FLAT_RATIO) * initial else None
