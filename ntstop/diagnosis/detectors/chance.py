"""Levels at which a classifier's loss stands still for a reason that its number of classes tells."""

from __future__ import annotations

import math
from dataclasses import dataclass

NEAR = 0.05
"""How far an initial loss may be from ln K: an initialization is never exactly indifferent."""
LARGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class ClassLevels:
    """For `classes` equally likely classes: the loss of a guess, and the least after two softmaxes in a row."""

    classes: int
    chance: float
    """ln K."""
    softmax_twice: float
    """ln(e + K - 1) - 1: the inner softmax gives 1 to the right class and 0 to the others, the outer one softens it."""


def levels_of_k(initial: float) -> ClassLevels | None:
    """The levels that belong to an initial loss of about ln K; None when there is no such K of 2 or more.

    The natural logarithm of an integer is near every loss above 3, so that the K of a large loss is a guess.
    """
    if not 0.5 < initial < math.log(LARGEST):
        return None
    classes = round(math.exp(initial))
    if classes < 2 or abs(math.log(classes) - initial) > NEAR * initial:
        return None
    return ClassLevels(classes, math.log(classes), math.log(math.e + classes - 1) - 1.0)


def near(level: float, wanted: float, tolerance: float) -> bool:
    """Whether `level` is `wanted` within a relative `tolerance`."""
    return abs(level - wanted) <= tolerance * wanted
