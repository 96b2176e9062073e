"""A descent that has stopped: Theil–Sen slope over block means, with its interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..thresholds import threshold
from .chance import levels_of_k, near
from .levels import Block, Levels

MIN_POINTS = 256
"""Shorter curves cannot carry the claim: the interval of the slope is wider than any move that matters."""
WINDOW_SHARE = 0.5
MIN_WINDOW = 24
"""The last half of the run, in at least 24 blocks: the interval of a Theil–Sen slope needs that many points."""
SMALL = threshold(
    "plateau.move",
    0.01,
    meaning="Share of the whole descent that both ends of the interval of the slope may move over the flat stretch. "
    "Raised, slow descents are told too.",
    source="measured: two of 140 healthy AlgoPerf runs are that flat before their end. An equivalence test, which mere "
    "noise cannot pass",
    low=1e-4,
    high=0.5,
)
SMALL_AGAINST_LEVEL = 0.5
"""And half of that share of the level itself."""
MIN_DESCENT = 0.05
"""Below 5 % of the initial loss there was no descent that could have stopped: never-learned speaks of that."""
SOLVED = 0.02
"""A flat loss under 2 % of where it began is the end of the work, not a plateau."""
CONFIDENCE_Z = 1.96
AT_FLOOR = 0.002
"""How near to the floor of two softmaxes, relative: solved data leave 1e-4 of it, by a few steps' creep."""


@dataclass(frozen=True, slots=True)
class Plateau:
    """The loss has been at `level` since `first_x`; `move` is the slope times the window, between `low` and `high`."""

    first_x: int
    last_x: int
    points: int
    level: float
    initial: float
    move: float
    low: float
    high: float


def theil_sen(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, float, float]:
    """Median of all pairwise slopes and its 95 % interval (Sen 1968), for at least 3 points with distinct x."""
    first, second = np.triu_indices(len(x), 1)
    slopes = np.sort((y[second] - y[first]) / (x[second] - x[first]))
    n = len(x)
    half = CONFIDENCE_Z * math.sqrt(n * (n - 1) * (2 * n + 5) / 18.0)
    low = max(0, round((len(slopes) - half) / 2) - 1)
    high = min(len(slopes) - 1, round((len(slopes) + half) / 2))
    return float(np.median(slopes)), float(slopes[low]), float(slopes[high])


def plateau(levels: Levels, initial: float, *, move: float = SMALL.value) -> Plateau | None:
    """The plateau the curve is on now, None when it moves, when it is too early, or when it is solved."""
    window = levels.blocks[-max(MIN_WINDOW, int(len(levels.blocks) * WINDOW_SHARE)) :]
    if levels.count < MIN_POINTS or len(window) < MIN_WINDOW or not math.isfinite(initial):
        return None
    y = np.array([block.mean for block in window])
    level = float(np.median(y)) + levels.origin
    descent = initial - level
    small = move * min(descent, SMALL_AGAINST_LEVEL * max(abs(level), descent))
    if descent < MIN_DESCENT * abs(initial) or abs(level) < SOLVED * abs(initial):
        return None
    # Cheap before exact: two halves that differ cannot be flat.
    half = len(y) // 2
    if abs(float(np.median(y[:half]) - np.median(y[half:]))) > 2 * small or float(np.ptp(y)) == 0.0:
        return None
    x = np.array([(block.x0 + block.x1) / 2 for block in window])
    span = float(x[-1] - x[0])
    slope, low, high = theil_sen(x, y)
    if max(-low, high) * span > small:
        return None
    # A creep with one sign is a descent still, unless it creeps to a floor that no descent can pass.
    if not low <= 0.0 <= high and not _at_floor(level, initial):
        return None
    return Plateau(
        first_x=_since(levels.blocks, level - levels.origin, small, window),
        last_x=window[-1].x1,
        points=sum(block.count for block in window),
        level=level,
        initial=initial,
        move=slope * span,
        low=low * span,
        high=high * span,
    )


def _at_floor(level: float, initial: float) -> bool:
    """Whether the level is as low as two softmaxes in a row allow."""
    known = levels_of_k(initial)
    return known is not None and near(level, known.softmax_twice, AT_FLOOR)


def _since(blocks: list[Block], level: float, small: float, window: list[Block]) -> int:
    """Where the flat part began: back from the window while block means stay within the window's own scatter."""
    scatter = max(small, 2.0 * float(np.std([block.mean for block in window])))
    first = window[0].x0
    for block in reversed(blocks[: len(blocks) - len(window)]):
        if abs(block.mean - level) > scatter:
            break
        first = block.x0
    return first
