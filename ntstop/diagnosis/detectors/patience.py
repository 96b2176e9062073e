"""A validation loss beside its training loss: is it past its best, and does it rise while training falls?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import Final

import numpy as np

from .plateau import theil_sen

MAX_KEPT: Final = 512
"""Evaluations that are kept; of more, every second one of the older half goes."""
SMOOTH: Final = 3
"""Evaluations in a median, so that one lucky one is no best."""
DIFF: Final = 1.4826 / math.sqrt(2.0)
LEAST: Final = 6
"""Evaluations before anything is said."""
SLOPE_POINTS: Final = 48
"""At most so many of them: the pairs of a slope grow with the square."""
RISING: Final = 4
"""Smoothed evaluations since the best that a slope needs."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """`train` is the level of the training loss around it, None when there was none."""

    x: int
    value: float
    train: float | None
    number: int
    """Which it was, from 0."""


@dataclass(frozen=True, slots=True)
class Past:
    """The best is `best`, smoothed `level` near it; since then `count` evaluations, the last ones at `now`."""

    best: Evaluation
    first: Evaluation
    last: Evaluation
    level: float
    now: float
    noise: float
    count: int
    of: int
    """Evaluations in all."""
    rising: bool
    """The slope since the best lies wholly above 0."""
    index: int
    """Which evaluation the best was, from 0."""
    floor: float
    """The lowest smoothed level of the later half of all evaluations, Inf when the best is one of them."""

    @property
    def rise(self) -> float:
        """What it lies over its best, as a share of it."""
        return (self.now - self.level) / max(abs(self.level), 1e-12)

    @property
    def sigmas(self) -> float:
        """The same in units of the noise between neighbours."""
        return (self.now - self.level) / max(self.noise, 1e-12)


class EvaluationCurve:
    """Feed it the evaluations of one loss in the order of their steps."""

    def __init__(self) -> None:
        self.kept: list[Evaluation] = []
        self.count = 0

    def add(self, x: int, value: float, train: float | None) -> bool:
        """One finite evaluation; False when it is not after the last one."""
        if self.kept and x <= self.kept[-1].x:
            return False
        self.kept.append(Evaluation(x, value, train, self.count))
        self.count += 1
        if len(self.kept) > MAX_KEPT:
            half = MAX_KEPT // 2
            best = min(self.kept[:half], key=lambda known: known.value)
            self.kept[:half] = [known for at, known in enumerate(self.kept[:half]) if at % 2 == 0 or known is best]
        return True

    def past(self) -> Past | None:
        """How the last evaluations stand against the best one; None when it is too early to say."""
        kept = self.kept
        if len(kept) < LEAST:
            return None
        values = np.array([known.value for known in kept])
        windows = np.lib.stride_tricks.sliding_window_view(values, SMOOTH)
        smooth = np.median(windows, axis=1)
        at = int(np.argmin(smooth))
        near = kept[at : at + SMOOTH]
        best = min(near, key=lambda known: known.value)
        if smooth[0] <= smooth[at] * (1 + 1e-9) or kept[0].value < best.value:
            # From the very first on it has only risen: the best is the first, which no median knows.
            best = kept[0] if kept[0].value <= best.value else best
        index = next(position for position, known in enumerate(kept) if known is best)
        steps = np.abs(np.diff(values[max(0, index - 1) :]))
        noise = DIFF * float(np.median(steps)) if len(steps) else 0.0
        since = smooth[at:]
        rising = False
        if len(since) >= RISING:
            where = np.array([known.x for known in kept[at + 1 : at + 1 + len(since)]], dtype=np.float64)
            every = -(-len(since) // SLOPE_POINTS)
            rising = theil_sen(where[::every], since[::every])[1] > 0.0
        return Past(
            best=best,
            first=kept[0],
            last=kept[-1],
            level=min(float(smooth[at]), best.value) if index == 0 else float(smooth[at]),
            now=float(smooth[-1]),
            noise=noise,
            count=self.count - 1 - best.number,
            of=self.count,
            rising=rising,
            index=best.number,
            floor=float(smooth[len(smooth) // 2 :].min()) if index < len(smooth) // 2 else math.inf,
        )

    def train_near(self, x: int) -> float | None:
        """The level of the training loss around the evaluation at `x`."""
        at = next((index for index, known in enumerate(self.kept) if known.x >= x), None)
        if at is None:
            return None
        return _middle([known.train for known in self.kept[max(0, at - 1) : at + 2]])

    def train_now(self) -> float | None:
        """The level of the training loss around the last three evaluations."""
        return _middle([known.train for known in self.kept[-3:]])

    def train_noise(self) -> float:
        """One sigma of the training levels, from neighbours; 0 when there are too few."""
        known = [item.train for item in self.kept if item.train is not None]
        if len(known) < LEAST:
            return 0.0
        return DIFF * float(np.median(np.abs(np.diff(np.array(known[-32:])))))


def _middle(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
