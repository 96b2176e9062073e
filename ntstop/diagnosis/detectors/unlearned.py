"""A loss that has never got going: still where it began, or above."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..thresholds import threshold
from .chance import levels_of_k, near
from .levels import Levels, lowest, pooled

WORSE_POINTS = 24
LEAST_POINTS = 16
"""Points under which nothing is said at all."""
WORSE_RATIO = 0.01
WORSE_Z = threshold(
    "never-learned.z",
    4.0,
    unit="sigma of one point",
    meaning="Spreads of one point by which the last quarter must lie over the initial loss to have gone the wrong "
    "way. Raised, small rises are not told.",
    source="measured: 14 and more for the AlgoPerf runs that never learned, at most 2 for a healthy one, from 24 "
    "points on; the initial loss is little more than one point itself",
    low=1.0,
    high=100.0,
)
FLAT_STEPS = threshold(
    "never-learned.steps",
    500,
    unit="steps",
    meaning="Steps without any descent after which the loss has never learned. Raised, it is told later.",
    source="measured: ImageNet ViT comes down 1 % in 60 to 100 steps of warm-up, a language model in 100",
    low=10,
)
FLAT_POINTS = 24
"""And so many points after the first half of them, where not every step is logged."""
LONG = 3.0
LONG_POINTS = 12
"""Half as many are enough after three times as many steps: in a log of every hundredth one they take long to come."""
EARLY_POINTS = 8
"""Points whose mean is where the loss began, when the first one is within the noise of it: that is a batch by luck."""
NOISY = 0.03
"""Unless the noise is larger than this share of it: then they may hide a descent of several percent."""
FLAT_RATIO = 0.01
"""No eighth of the run is 1 % under the initial loss."""
GUESS = 0.02
"""How near to ln K a first loss must be to be a guess: it is one batch. What is then learned, is learned below ln K."""
FLAT_SHARE = 0.02
"""Where the length of the run is known: at least 2 % of it must be over, as a long run has a long warm-up."""
NOTHING = 1e-6
"""An initial loss under this is a metric that means nothing (or a solved problem), not a failure to learn."""
JOINED = 500
"""A curve that begins later than this step is the rest of a run: where it began is not where learning began."""


@dataclass(frozen=True, slots=True)
class Unlearned:
    """`initial` loss at `initial_x`, `level` over the last quarter of the run, `best` over its best eighth."""

    initial: float
    initial_x: int
    level: float
    best: float
    last_x: int
    points: int


def unlearned(
    levels: Levels,
    initial: float,
    *,
    total_steps: int | None = None,
    steps: float = FLAT_STEPS.value,
    z: float = WORSE_Z.value,
) -> Unlearned | None:
    """What is known once the curve is as good as where it started, for losses that stay positive."""
    blocks = levels.blocks
    if levels.count < LEAST_POINTS or len(blocks) < 16 or blocks[0].x0 > JOINED or not NOTHING < initial < math.inf:
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
    if levels.count >= WORSE_POINTS and worse > WORSE_RATIO * initial and worse > z * math.sqrt(late_variance):
        return found
    early = pooled(blocks[: math.ceil(EARLY_POINTS / levels.size)])[0] + levels.origin
    sigma = math.sqrt(late_variance)
    lucky = initial - early <= z * sigma and sigma <= NOISY * initial
    began = early if early > initial or lucky else initial
    patience, steps_seen = max(steps, FLAT_SHARE * (total_steps or 0)), found.last_x - found.initial_x
    if steps_seen < patience or best <= (1 - FLAT_RATIO) * _guess(began):
        return None
    later = sum(block.count for block in blocks if block.x0 >= found.initial_x + patience / 2)
    return found if later >= (LONG_POINTS if steps_seen >= LONG * patience else FLAT_POINTS) else None


def _guess(initial: float) -> float:
    """The loss of who has learned nothing: the initial one, or ln K where that is a little less."""
    known = levels_of_k(initial)
    return min(initial, known.chance) if known is not None and near(initial, known.chance, GUESS) else initial
