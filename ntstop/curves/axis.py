"""The steps and times of points that wait: many curves of one block share them, so they are put together once."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .ring import Table

Chunk = tuple[ArrayLike, ArrayLike, ArrayLike]
"""(x, y, t) of some points in a row."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Steps and times as float64, those of the points that were held first."""

    x: NDArray[np.float64]
    t: NDArray[np.float64]
    rising: bool
    """Every step is finite, and none goes back."""


class AxisMaker:
    """Makes axes, and remembers the last one: the curves of a run wait for the same blocks and settle one after the
    other, so all but the first of them find theirs here. What was put in must not change."""

    def __init__(self) -> None:
        self._last: tuple[list[ArrayLike], bytes, Axis] | None = None
        """One tuple, so that two threads cannot mix theirs."""

    def make(self, held_x: Table, held_t: Table, chunks: Sequence[Chunk]) -> Axis:
        """The axis of the held points and the chunks behind them."""
        parts = [part for x, _, t in chunks for part in (x, t)]
        held = held_x.tobytes() + held_t.tobytes()
        if self._last is not None:
            known, known_held, axis = self._last
            if held == known_held and len(parts) == len(known) and all(map(operator.is_, parts, known)):
                return axis
        x, t = joined(held_x, parts[0::2]), joined(held_t, parts[1::2])
        rising = bool(np.isfinite(x).all() and (x[1:] >= x[:-1]).all())
        axis = Axis(x, t, rising)
        self._last = parts, held, axis
        return axis


def joined(held: Table, parts: Sequence[ArrayLike]) -> NDArray[np.float64]:
    """One array of all of them."""
    return np.concatenate([held, *parts], dtype=np.float64, casting="unsafe")
