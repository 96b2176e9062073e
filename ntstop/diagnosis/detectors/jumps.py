"""A validation loss that jumps by factors from one evaluation to the next, beside a smooth training loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..thresholds import threshold
from .patience import Evaluation

JUMP = threshold(
    "parity-mismatch.jump",
    0.25,
    meaning="Log ratio of neighbouring evaluations, in the mean of the last fifteen without the four largest (0.25: a "
    "factor of 1.28). Raised, only wilder ones are told.",
    source="simulated: in 40 evaluations on few samples, which differ by 15 %, it is 0.24 at most in 99 of 100; "
    "measured: of 140 healthy AlgoPerf runs 2 come to it for a while, all with BatchNorm at a high rate",
    low=0.05,
    high=5.0,
)
FALL = threshold(
    "parity-mismatch.fall",
    0.5,
    meaning="Log ratio by which the training loss has fallen from the first half of these evaluations to the second "
    "(0.5: to 0.6 of it), while validation is no better. Raised, fewer are a warning.",
    source="measured: in the healthy AlgoPerf runs whose validation jumps it is 0.18 at most, over any 16, 32 or 64 "
    "evaluations",
    low=0.05,
    high=5.0,
)
OUTLIERS: Final = 4
"""Jumps that are left out, the largest: each of two evaluations that went wrong makes two."""
LEAST: Final = 16
"""Evaluations of the shortest span that is looked at."""
SPANS: Final = (LEAST, 2 * LEAST, 4 * LEAST)
SMOOTH: Final = 0.5
"""Share of the jumps that the training loss may come to between the same evaluations, and that validation may have
fallen by."""
UNSOLVED: Final = 0.1
"""Share of the first validation loss above which the level must lie: near 0 a few samples make factors."""


@dataclass(frozen=True, slots=True)
class Jumps:
    """What the last evaluations did, in logs: `jump` from one to the next, `train_jump` of the training loss.

    `fell`: over the span of `fell_over` evaluations the training loss has fallen by so much, from half to half, while
    validation has not; 0 where that is so over no span.
    """

    first_x: int
    last_x: int
    jump: float
    train_jump: float
    low: Evaluation
    high: Evaluation
    train: tuple[Evaluation, Evaluation]
    """The first and the last of the span."""
    fell: float
    fell_over: int


def jumps(kept: Sequence[Evaluation], least: float) -> Jumps | None:
    """Whether the last `LEAST` evaluations jump by `least` and more, and training does not."""
    last = kept[-LEAST:]
    if len(last) < LEAST or any(one.value <= 0 or not one.train or one.train < 0 for one in last):
        return None
    jump, steps = _usual(_logs(last)), _usual(_train_logs(last))
    level = float(np.median([one.value for one in last]))
    if jump < least or steps > SMOOTH * jump or level < UNSOLVED * kept[0].value:
        return None
    fell, over = max((_fell(kept[-span:], jump), span) for span in SPANS if len(kept) >= span)
    span = kept[-over:]
    return Jumps(
        first_x=span[0].x,
        last_x=last[-1].x,
        jump=jump,
        train_jump=steps,
        low=min(last, key=lambda one: one.value),
        high=max(last, key=lambda one: one.value),
        train=(span[0], span[-1]),
        fell=fell,
        fell_over=over,
    )


def _usual(logs: NDArray[np.float64]) -> float:
    return float(np.sort(np.abs(np.diff(logs)))[:-OUTLIERS].mean())


def _fell(span: Sequence[Evaluation], jump: float) -> float:
    """By how much training has fallen over these evaluations, if validation has not."""
    if any(one.value <= 0 or not one.train or one.train < 0 for one in span):
        return 0.0
    return _halves(_train_logs(span)) if _halves(_logs(span)) < SMOOTH * jump else 0.0


def _halves(logs: NDArray[np.float64]) -> float:
    half = len(logs) // 2
    return float(np.median(logs[:half]) - np.median(logs[half:]))


def _logs(span: Sequence[Evaluation]) -> NDArray[np.float64]:
    return np.log([one.value for one in span])


def _train_logs(span: Sequence[Evaluation]) -> NDArray[np.float64]:
    return np.log([one.train or math.nan for one in span])
