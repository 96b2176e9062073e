"""A validation loss that has gone up and stays up: a few exact points, where the training loss has many noisy ones."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from statistics import median

from .baseline import DIFF_TO_SIGMA
from .levels import Block, Levels

RISE = 0.10
RUN = 3
"""3 evaluations in a row lie 10 % over the best one. Of 140 healthy AlgoPerf runs 7 have that together with a higher
training loss; all but the planned restarts come back from it, which is looked at too."""
NOISE = 4.0
"""And so many sigmas, from the steps between good neighbours: on few samples, or at a high rate, validation is wild.
The last `NOISE_STEPS` of them are kept."""
NOISE_STEPS = 32
COMING_BACK = 0.5
"""The last of them has lost half of the rise that the first of these three had: it is on its way back. Measured: from a
quarter to 0.6 no healthy run is called, and at a quarter one that is lost is called a twentieth of the run later."""
TRAINING_RISE = 0.03
"""The training loss over the same steps must have risen as well, or it is overfitting (or another validation set)."""


@dataclass(frozen=True, slots=True)
class Worse:
    """`level` at `last_x`, where `best` at `best_x` has been; the last good evaluation was at `since_x`."""

    best: float
    best_x: int
    since_x: int
    first_x: int
    level: float
    last_x: int


class EvaluationWatch:
    """Feed it every finite evaluation; `worse` is what is known with the last one."""

    def __init__(self) -> None:
        self._best = 0.0
        self._best_x: int | None = None
        self._newest: deque[float] = deque(maxlen=RUN)
        self._steps: deque[float] = deque(maxlen=NOISE_STEPS)
        self._good_x = 0
        self._first_x: int | None = None
        self._high = 0

    @property
    def good(self) -> bool:
        """Whether the last evaluation was near the best."""
        return self._high == 0

    def clear(self) -> None:
        """What comes is measured against itself."""
        self.__init__()  # type: ignore[misc]

    def add(self, x: int, y: float) -> Worse | None:
        """Whether the loss stays over its best, for losses above 0."""
        step = abs(y - self._newest[-1]) if self._newest else None
        self._newest.append(y)
        # One evaluation on few samples may be low by luck: a level is the middle of three.
        level = median(self._newest)
        if self._best_x is None or level < self._best:
            self._best, self._best_x = level, x
        noise = DIFF_TO_SIGMA * median(self._steps) if self._steps else 0.0
        if self._best <= 0 or y <= self._best + max(RISE * self._best, NOISE * noise):
            if step is not None:
                self._steps.append(step)
            self._good_x, self._first_x, self._high = x, None, 0
            return None
        self._first_x = x if self._first_x is None else self._first_x
        self._high += 1
        # A spike that heals halfway and stays there is told when it has stopped healing.
        if self._high < RUN or y < self._newest[0] - COMING_BACK * (self._newest[0] - self._best):
            return None
        return Worse(self._best, self._best_x, self._good_x, self._first_x, y, x)


def training_rose(levels: Levels, worse: Worse) -> tuple[float, float] | None:
    """The level of the training loss up to the last good evaluation and since, when it rose too."""
    since = [block for block in levels.blocks if block.x0 > worse.since_x]
    before = [block for block in levels.blocks if block.x1 <= worse.since_x]
    length = max(1, min(len(since), len(before)))
    if not since or not before:
        return None
    good, bad = _middle(before[-length:], levels.origin), _middle(since, levels.origin)
    return (good, bad) if good > 0 and bad > good * (1 + TRAINING_RISE) else None


def _middle(blocks: list[Block], origin: float) -> float:
    return median(block.mean for block in blocks) + origin
