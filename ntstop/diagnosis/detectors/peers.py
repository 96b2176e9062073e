"""Ranks beside each other: the same stretch of steps of all of them, whatever the order in which they are read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

FINE: Final = 16
"""Steps in a window up to `FINE_UNTIL`, then `COARSE`: a long run has few thousand windows."""
FINE_UNTIL: Final = 4096
COARSE: Final = 256
WAITING: Final = 8192
"""Stretches that wait for a rank; the oldest are given up."""
EVERY: Final = 1024
"""Readings taken of each doubling of the steps."""

Item = TypeVar("Item")


def windows(ordinals: NDArray[np.int64]) -> NDArray[np.int64]:
    """The window that each step belongs to."""
    coarse = FINE_UNTIL // FINE + (ordinals - FINE_UNTIL) // COARSE
    return np.where(ordinals < FINE_UNTIL, ordinals // FINE, coarse)


def taken(ordinals: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The steps whose readings are compared: all at first, then ever fewer, and the same ones on all ranks."""
    strides = 2 ** np.maximum(0, np.floor(np.log2(np.maximum(ordinals, 1) / EVERY)).astype(np.int64))
    kept: NDArray[np.bool_] = ordinals % strides == 0
    return kept


class Gathered(Generic[Item]):
    """What each rank has for a key (a window, a step); given out in the order of the keys, once all of them have it."""

    def __init__(self, most: int = WAITING) -> None:
        self._most = most
        self._by_key: dict[int, dict[int, Item]] = {}

    def add(self, key: int, writer: int, item: Item) -> None:
        """What `writer` has for `key`."""
        self._by_key.setdefault(key, {})[writer] = item
        if len(self._by_key) > self._most:
            del self._by_key[min(self._by_key)]

    def clear(self) -> None:
        """Forget what waits."""
        self._by_key.clear()

    def complete(self, key: int, ranks: int) -> dict[int, Item] | None:
        """All that there is for `key` once `ranks` ranks have it; it is given out once."""
        known = self._by_key.get(key)
        return self._by_key.pop(key) if known is not None and len(known) >= ranks else None

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._by_key))


@dataclass(frozen=True, slots=True)
class Local:
    """One rank in one window: mean seconds of a step, and of what it does without the others."""

    x0: int
    x1: int
    count: int
    step: float
    data: float
    forward: float

    @property
    def own(self) -> float:
        """In backward and in collectives a rank waits for the slowest; before that it is on its own."""
        return self.data + self.forward


def spread(values: list[float]) -> float:
    """Largest distance between ranks, as a share of their median."""
    middle = float(np.median(values))
    return (max(values) - min(values)) / max(abs(middle), 1e-30)
