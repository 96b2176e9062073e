"""Many points to few columns, without a Python loop over points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .scale import XScale
from .spec import Floats


@dataclass(frozen=True, eq=False, slots=True)
class Columns:
    """A curve as pieces: neighbouring finite points of one segment that share a column. All arrays have one length.

    `first`, `last`: the values at the piece's ends; `lo`, `hi`, `mean` over all of it; `joined`: nothing not finite and
    no new segment lies between this piece and the one before. `bad` are the columns in which something was not finite,
    `bad_count` how many such values there were.
    """

    column: NDArray[np.int64]
    first: Floats
    last: Floats
    lo: Floats
    hi: Floats
    mean: Floats
    joined: NDArray[np.bool_]
    bad: NDArray[np.int64]
    bad_count: int


def reduce_to_columns(
    x: Floats,
    y: Floats,
    x0: float,
    x1: float,
    columns: int,
    *,
    lo: Floats | None = None,
    hi: Floats | None = None,
    nonfinite: NDArray[np.integer] | None = None,
    segment: NDArray[np.integer] | None = None,
) -> Columns:
    """Points (x, y) inside x0…x1 to `columns` columns. For the meaning of the arrays see `spec.Trace`.

    x goes up within a segment; it may fall back where the segment changes.
    """
    column = XScale(x0, x1, columns).columns_of(x)
    inside = (column >= 0) & (column < columns)
    if not inside.all():
        keep = _slice_of(inside)
        column, y = column[keep], y[keep]
        lo, hi = (None if part is None else part[keep] for part in (lo, hi))
        nonfinite, segment = (None if part is None else part[keep] for part in (nonfinite, segment))
    finite = np.isfinite(y)
    marked = ~finite if nonfinite is None else nonfinite > 0
    bad, bad_count = column[:0], 0
    stretch = np.zeros(len(column), np.int64)
    if marked.any():
        bad = np.unique(column[marked])
        bad_count = int(marked.sum() if nonfinite is None else nonfinite[marked].sum())
    broken = marked | ~finite
    if broken.any():
        # Counted up behind each break, so that the point before it still belongs to what came before.
        stretch[1:] = np.cumsum(broken)[:-1]
        stretch[~finite] = -1
    if segment is not None and len(segment):
        # A segment ends what went before for good: its number is worth more than any count of breaks.
        stretch = stretch + (len(column) + 1) * np.cumsum(np.diff(segment, prepend=segment[0]) != 0)
    if not finite.all():
        column, y, stretch = column[finite], y[finite], stretch[finite]
        lo, hi = (None if part is None else part[finite] for part in (lo, hi))
    return _pieces(column, y, stretch, y if lo is None else lo, y if hi is None else hi, bad, bad_count)


def _slice_of(inside: NDArray[np.bool_]) -> slice | NDArray[np.bool_]:
    """A slice where what is inside lies together, for it costs no copy; else the mask."""
    indexes = np.flatnonzero(inside)
    if len(indexes) and indexes[-1] - indexes[0] + 1 == len(indexes):
        return slice(int(indexes[0]), int(indexes[-1]) + 1)
    return inside


def _pieces(
    column: NDArray[np.int64],
    y: Floats,
    stretch: NDArray[np.int64],
    lo: Floats,
    hi: Floats,
    bad: NDArray[np.int64],
    bad_count: int,
) -> Columns:
    """Finite points to `Columns`: a new piece where the column changes or x falls back."""
    if not len(column):
        none = np.empty(0, np.float64)
        return Columns(column, none, none, none, none, none, np.empty(0, np.bool_), bad, bad_count)
    starts = np.flatnonzero(np.concatenate(([True], np.diff(column) != 0)))
    ends = np.append(starts[1:], len(column)) - 1
    with np.errstate(all="ignore"):
        low = np.fmin(np.fmin.reduceat(lo, starts), np.minimum.reduceat(y, starts))
        high = np.fmax(np.fmax.reduceat(hi, starts), np.maximum.reduceat(y, starts))
        mean = np.add.reduceat(y, starts) / (ends - starts + 1)
        mean = np.clip(mean, np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts))
    joined = np.zeros(len(starts), np.bool_)
    joined[1:] = stretch[starts[1:]] == stretch[ends[:-1]]
    return Columns(column[starts], y[starts], y[ends], low, high, mean, joined, bad, bad_count)


def extents(x: Floats, cells: XScale) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which of the rising `x`, from … up to before …, each column shows: those that fall into it, else the one before.

    A value holds until the next, but no longer than twice the usual distance between two; then a column shows none.
    """
    half = (cells.x1 - cells.x0) / max(cells.columns - 1, 1) / 2
    middles = np.linspace(cells.x0, cells.x1, cells.columns) if cells.columns > 1 else np.array([cells.x0])
    if cells.columns == 1:
        half = cells.x1 - cells.x0
    start, stop = np.searchsorted(x, middles - half), np.searchsorted(x, middles + half)
    held = (start == stop) & (stop > 0)
    gaps = np.diff(x)
    reach = 2 * float(np.median(gaps)) if len(gaps) else 0.0
    held[held] = middles[held] - x[stop[held] - 1] <= reach
    start = np.where(held, stop - 1, start)
    return start, stop


def running(values: NDArray[np.generic]) -> Floats:
    """Sums from the first column up to before each one, so that a difference is the sum of a stretch."""
    sums = np.zeros((values.shape[0], values.shape[1] + 1))
    np.cumsum(values, axis=1, out=sums[:, 1:])
    return sums
