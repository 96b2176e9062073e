"""Buckets: what is kept of a group of points, and how two groups become one.

A block of buckets is a `Table` whose rows are ordered by how they fold, so that folding is four numpy calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .ring import Table

X_LO, LO, X_HI, HI, SUM, COUNT, NONFINITE, T_LAST, LAST, SEGMENT = range(10)
ROWS = 10
AXIS = (X_LO, X_HI, COUNT, T_LAST, SEGMENT)
"""What the curves on the same steps have alike."""
_MIN, _MAX, _ADD, _LATER = slice(0, 2), slice(2, 4), slice(4, 7), slice(7, 10)


@dataclass(frozen=True, slots=True)
class Buckets:
    """A stretch of a series in columns, oldest first; all arrays have the same length.

    `lo`, `hi` and `mean` are of the finite values, NaN where a bucket has none. `last` is the newest value as it was,
    NaN and Inf included. `segment` changes where the steps went backwards (a resume): a line breaks there.
    """

    x: NDArray[np.float64]
    """Middle of the bucket."""
    x_first: NDArray[np.float64]
    x_last: NDArray[np.float64]
    t: NDArray[np.float64]
    """Monotonic seconds of the last point."""
    lo: NDArray[np.float64]
    hi: NDArray[np.float64]
    mean: NDArray[np.float64]
    last: NDArray[np.float64]
    count: NDArray[np.int64]
    """Points, the nonfinite ones among them."""
    nonfinite: NDArray[np.int64]
    segment: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.x)

    @classmethod
    def of(cls, block: Table) -> Buckets:
        """The public view of a block; it shares no memory with the series."""
        finite = block[COUNT] - block[NONFINITE]
        mean = np.divide(block[SUM], finite, out=np.full(block.shape[1], np.nan), where=finite > 0)
        return cls(
            x=(block[X_LO] + block[X_HI]) / 2,
            x_first=block[X_LO].copy(),
            x_last=block[X_HI].copy(),
            t=block[T_LAST].copy(),
            lo=block[LO].copy(),
            hi=block[HI].copy(),
            mean=mean,
            last=block[LAST].copy(),
            count=block[COUNT].astype(np.int64),
            nonfinite=block[NONFINITE].astype(np.int64),
            segment=block[SEGMENT].astype(np.int64),
        )


def empty() -> Table:
    """A block without buckets."""
    return np.empty((ROWS, 0))


def points_to_buckets(x: Table, y: Table, t: Table, segment: Table) -> Table:
    """One bucket a point."""
    block = np.empty((ROWS, len(x)))
    finite = np.isfinite(y)
    block[X_LO] = block[X_HI] = x
    block[LO] = block[HI] = np.where(finite, y, np.nan)
    block[SUM] = np.where(finite, y, 0.0)
    block[COUNT] = 1
    block[NONFINITE] = ~finite
    block[T_LAST], block[LAST], block[SEGMENT] = t, y, segment
    return block


def fold_points(x: Table, y: Table, t: Table, segment: int, size: int) -> Table:
    """Buckets of `size` points each; `size` is a power of two and divides the length."""
    block = np.empty((ROWS, len(x) // size))
    _fold_values(block, y, size, finite=bool(np.isfinite(y).all()))
    block[X_LO], block[X_HI] = _tree(np.minimum, x, size), _tree(np.maximum, x, size)
    block[COUNT], block[SEGMENT] = size, segment
    block[T_LAST], block[LAST] = t[size - 1 :: size], y[size - 1 :: size]
    return block


def fold_rising(x: Table, y: Table, t: Table, segment: int, size: int, *, finite: bool) -> Table:
    """The same where no step goes back; `finite` says that no value is NaN or Inf, False that one may be."""
    block = np.empty((ROWS, len(x) // size))
    _fold_values(block, y, size, finite=finite)
    block[X_LO], block[X_HI] = x[::size], x[size - 1 :: size]
    block[COUNT], block[SEGMENT] = size, segment
    block[T_LAST], block[LAST] = t[size - 1 :: size], y[size - 1 :: size]
    return block


def fold(block: Table, size: int) -> Table:
    """Every `size` neighbours as one bucket; `size` is a power of two and divides the length."""
    while size > 1:
        block = _combine(block[:, 0::2], block[:, 1::2])
        size //= 2
    return block


def fold_groups(block: Table, starts: NDArray[np.intp]) -> Table:
    """One bucket a group; a group reaches from one of `starts` (rising, the first is 0) to the next."""
    out = np.empty((ROWS, len(starts)))
    ends = np.append(starts[1:], block.shape[1]) - 1
    out[_MIN] = np.fmin.reduceat(block[_MIN], starts, axis=1)
    out[_MAX] = np.fmax.reduceat(block[_MAX], starts, axis=1)
    out[_ADD] = np.add.reduceat(block[_ADD], starts, axis=1)
    out[_LATER] = block[_LATER, ends]
    return out


def fold_all(block: Table) -> Table:
    """The whole block as one bucket."""
    return fold_groups(block, np.zeros(1, np.intp))


def pair_starts(segment: NDArray[np.float64]) -> NDArray[np.intp]:
    """Where the groups begin when neighbours of one segment are folded in pairs, none across a segment's end."""
    index = np.arange(len(segment))
    begins = np.concatenate(([True], segment[1:] != segment[:-1]))
    within = index - np.maximum.accumulate(np.where(begins, index, 0))
    return np.flatnonzero(within % 2 == 0)


def _fold_values(block: Table, y: Table, size: int, *, finite: bool) -> None:
    if finite:
        block[LO], block[HI] = _tree(np.minimum, y, size), _tree(np.maximum, y, size)
        block[SUM], block[NONFINITE] = _tree(np.add, y, size), 0
        return
    there = np.isfinite(y)
    clean = np.where(there, y, np.nan)
    block[LO], block[HI] = _tree(np.fmin, clean, size), _tree(np.fmax, clean, size)
    block[SUM] = _tree(np.add, np.where(there, y, 0.0), size)
    block[NONFINITE] = _tree(np.add, (~there).astype(float), size)


def _combine(earlier: Table, later: Table) -> Table:
    out = np.empty((ROWS, later.shape[1]))
    np.fmin(earlier[_MIN], later[_MIN], out=out[_MIN])
    np.fmax(earlier[_MAX], later[_MAX], out=out[_MAX])
    np.add(earlier[_ADD], later[_ADD], out=out[_ADD])
    out[_LATER] = later[_LATER]
    return out


def _tree(operation: Callable[..., Table], values: Table, size: int) -> Table:
    while size > 1:
        values = operation(values[0::2], values[1::2])
        size //= 2
    return values
