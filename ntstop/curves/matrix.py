"""One number a layer over the steps, in at most 2,048 columns however long the run: what a heat map is drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .buckets import pair_starts

COLUMNS = 2048
"""Most step buckets of a field."""
_CELLS = 2_097_152
"""Most cells (layers × buckets) of a field, 13 bytes each (5 while a bucket is one sample): 27 MB. Beyond 1,024 layers
there are fewer columns."""
_FEWEST_COLUMNS = 128
_PENDING = 64
_SPARE = 4
"""A quarter more rows are allocated than there are."""

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]


def _cut(columns: Sequence[Any], rows: slice | NDArray[np.bool_]) -> list[Any]:
    """The same rows of each column that is there."""
    return [None if column is None else column[rows] for column in columns]


@dataclass(slots=True)
class _Block:
    """Buckets of samples, one a row: means and maxima of the finite values of each layer, and how many they are."""

    x_first: NDArray[np.float64]
    x_last: NDArray[np.float64]
    segment: NDArray[np.float64]
    samples: NDArray[np.int64]
    mean: Floats
    nonfinite: Flags
    high: Floats | None = None
    """None where every bucket is one sample: there it is the mean."""
    count: Floats | None = None
    """None there, too: one where there is a mean."""

    def __len__(self) -> int:
        return len(self.x_first)

    def part(self, rows: slice | NDArray[np.bool_]) -> _Block:
        """Some of the rows."""
        return _Block(*_cut(self.columns(), rows))

    def followed_by(self, later: _Block) -> _Block:
        """Both, where both have maxima and counts."""
        return _Block(*map(np.concatenate, zip(self.columns(), later.columns(), strict=True)))

    def columns(self) -> list[Any]:
        """What it consists of, in order."""
        return [getattr(self, name) for name in self.__slots__]

    def fold(self, starts: NDArray[np.intp]) -> _Block:
        """One bucket a group of rows; a group reaches from one of `starts` to the next."""
        ends = np.append(starts[1:], len(self)) - 1
        high, counts = self.counted()
        count = np.add.reduceat(counts, starts, axis=0)
        total = np.add.reduceat(np.where(counts > 0, self.mean * counts, np.float32(0)), starts, axis=0)
        return _Block(
            np.minimum.reduceat(self.x_first, starts),
            np.maximum.reduceat(self.x_last, starts),
            self.segment[ends],
            np.add.reduceat(self.samples, starts),
            np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0),
            np.logical_or.reduceat(self.nonfinite, starts, axis=0),
            np.fmax.reduceat(high, starts, axis=0),
            count,
        )

    def counted(self) -> tuple[Floats, Floats]:
        """The maxima, and the numbers of values."""
        if self.high is None or self.count is None:
            return self.mean, np.isfinite(self.mean).astype(np.float32)
        return self.high, self.count


class _Rows:
    """A block that grows at its end, in place: copies of it would leave holes in the heap that are as large."""

    def __init__(self) -> None:
        self._columns: list[Any] = []
        self._length = self._room = 0

    def __len__(self) -> int:
        return self._length

    def block(self) -> _Block | None:
        """All rows; None where there are none. What is written later may show in it."""
        if not self._length:
            return None
        return _Block(*_cut(self._columns, slice(self._length)))

    def put(self, at: int, block: _Block) -> None:
        """Let the rows from `at` on be those of `block`, which has maxima and counts as they have."""
        length = at + len(block)
        if not at or length > self._room:
            self._grow(at, length, block)
        for column, rows in zip(self._columns, block.columns(), strict=True):
            if column is not None:
                column[at:length] = rows
        self._length = length

    def _grow(self, kept: int, length: int, block: _Block) -> None:
        old, self._room = self._columns, length + length // _SPARE
        self._columns = [
            None if rows is None else np.empty((self._room, *rows.shape[1:]), rows.dtype) for rows in block.columns()
        ]
        if kept:
            for column, was in zip(self._columns, old, strict=True):
                if column is not None and was is not None:
                    column[:kept] = was[:kept]


@dataclass(frozen=True, slots=True)
class MatrixWindow:
    """Columns of a `LayerMatrix`, oldest first. Missing is NaN in `mean` and `high`, nonfinite is a flag beside it."""

    x: NDArray[np.float64]
    """Middle of each column."""
    x_first: NDArray[np.float64]
    x_last: NDArray[np.float64]
    mean: Floats
    """[layers, columns], of the finite values."""
    high: Floats
    """[layers, columns], the largest finite value."""
    nonfinite: Flags
    """[layers, columns]: a NaN or Inf was measured."""
    segment: NDArray[np.int64]
    """Changes where the steps went backwards."""

    def __len__(self) -> int:
        return len(self.x)


class LayerMatrix:
    """Layers × steps of one field, such as "grad_norm".

    Samples gather in buckets of equal size; when 2,048 are full, neighbours fold in pairs and the size doubles. Where
    `x` goes backwards a new bucket and segment begin. For other layers, take a new matrix. Not thread-safe.
    """

    def __init__(self, layers: int, columns: int = COLUMNS) -> None:
        self.layers = layers
        self._capacity = max(_FEWEST_COLUMNS, min(columns, _CELLS // max(1, layers)))
        self._size = 1
        self._rows = _Rows()
        self._done = 0
        """Rows that are full; the one behind them, if there is one, waits for more samples."""
        self._pending: list[tuple[float, Floats, Flags | None]] = []
        self._segment = 0
        self._last_x = -np.inf
        self._samples = 0
        self._first: Floats | None = None

    @property
    def samples(self) -> int:
        """Samples taken in."""
        return self._samples

    @property
    def first(self) -> Floats:
        """The first sample, NaN where it has none; all NaN before it."""
        return np.full(self.layers, np.nan, np.float32) if self._first is None else self._first

    @property
    def last_x(self) -> float | None:
        """Step of the newest sample; None when there is none."""
        return self._pending[-1][0] if self._pending else self._last_x if self._samples else None

    @property
    def x_range(self) -> tuple[float, float] | None:
        """First and last step; None when there is no sample."""
        block = self._all()
        return (float(block.x_first.min()), float(block.x_last.max())) if block else None

    def append(self, x: float, values: Floats, present: Flags | None = None) -> None:
        """Add a sample: `values` of `layers` float32 numbers, `present` False where nothing was measured (None: all
        are). The arrays are kept. Raises `ValueError` when the length is not that of the layers."""
        if len(values) != self.layers:
            raise ValueError(f"{len(values)} values for {self.layers} layers")
        self._pending.append((x, values, present))
        self._samples += 1
        if self._first is None:
            self._first = values.copy() if present is None else np.where(present, values, np.float32(np.nan))
        if len(self._pending) >= _PENDING:
            self._settle()

    def window(self, x0: float, x1: float, width: int) -> MatrixWindow:
        """The samples with x0 <= x <= x1 in about `width` columns at most for every segment in view."""
        block = self._all()
        if block is None:
            return self._empty()
        block = block.part((block.x_last >= x0) & (block.x_first <= x1))
        if len(block) > max(1, width):
            step = (x1 - x0) / max(1, width)
            middle = (block.x_first + block.x_last) / 2
            column = np.floor(middle / step) if step > 0 else np.zeros(len(block))
            begins = (column[1:] != column[:-1]) | (block.segment[1:] != block.segment[:-1])
            block = block.fold(np.concatenate(([0], np.flatnonzero(begins) + 1)))
        return _public(block)

    def column_at(self, x: float) -> tuple[Floats, Flags]:
        """(mean, nonfinite) of every layer in the newest bucket that begins at or before `x`; all NaN before the
        first."""
        bucket = self._bucket_at(x)
        if bucket is None:
            return np.full(self.layers, np.nan, np.float32), np.zeros(self.layers, np.bool_)
        return bucket.mean[0].copy(), bucket.nonfinite[0].copy()

    def steps_at(self, x: float) -> tuple[float, float] | None:
        """First and last step of the samples that `column_at` is the mean of; None before the first."""
        bucket = self._bucket_at(x)
        return None if bucket is None else (float(bucket.x_first[0]), float(bucket.x_last[0]))

    def _bucket_at(self, x: float) -> _Block | None:
        """The newest bucket that begins at or before `x`."""
        block = self._all()
        found = np.flatnonzero(block.x_first <= x) if block is not None else np.empty(0, np.intp)
        return block.part(slice(found[-1], found[-1] + 1)) if block is not None and len(found) else None

    @property
    def spacing(self) -> float:
        """Usual distance of two samples, in steps; 0 where there is one at most."""
        block = self._all()
        apart = np.diff(block.x_first) if block is not None else np.empty(0)
        apart = apart[apart > 0]
        return float(np.median(apart)) / self._size if len(apart) else 0.0

    def _all(self) -> _Block | None:
        self._settle()
        return self._rows.block()

    def _settle(self) -> None:
        """Fold the samples that wait into buckets."""
        if not self._pending:
            return
        new = self._take()
        if self._size > 1:
            new = self._folded(new)
        self._put(self._done, new)
        while self._done > self._capacity:
            whole = self._rows.block()
            assert whole is not None
            starts = pair_starts(whole.segment)
            if len(starts) > self._capacity * 3 // 4:
                starts = np.arange(0, len(whole), 2)
            self._size *= 2
            self._put(0, whole.fold(starts))

    def _folded(self, new: _Block) -> _Block:
        """The bucket that waits and what has come behind it, as buckets."""
        new.high, new.count = new.counted()
        known = self._rows.block()
        whole = new if known is None else known.part(slice(self._done, None)).followed_by(new)
        # A bucket ends when it is full or its segment does. Its number within the segment's samples says which it is.
        before = np.cumsum(whole.samples) - whole.samples
        begins = np.concatenate(([True], whole.segment[1:] != whole.segment[:-1]))
        origin = np.maximum.accumulate(np.where(begins, before, 0))
        number = (before - origin) // self._size
        edges = begins | np.concatenate(([False], number[1:] != number[:-1]))
        return whole.fold(np.flatnonzero(edges))

    def _put(self, at: int, block: _Block) -> None:
        """Let the buckets from `at` on be these, of which the last may wait for more samples."""
        self._rows.put(at, block)
        self._done = len(self._rows) - int(block.samples[-1] < self._size)

    def _take(self) -> _Block:
        x = np.array([sample[0] for sample in self._pending])
        values = np.array([sample[1] for sample in self._pending], np.float32)
        missing = np.zeros(values.shape, np.bool_)
        for row, (_, _, present) in enumerate(self._pending):
            if present is not None:
                np.logical_not(present, out=missing[row])
        self._pending = []
        finite = np.isfinite(values) & ~missing
        back = np.concatenate(([x[0] < self._last_x], x[1:] < x[:-1]))
        segment = self._segment + np.cumsum(back)
        self._segment, self._last_x = int(segment[-1]), float(x[-1])
        mean = np.where(finite, values, np.float32(np.nan))
        return _Block(x, x, segment.astype(float), np.ones(len(x), np.int64), mean, ~finite & ~missing)

    def _empty(self) -> MatrixWindow:
        none = np.empty(0)
        values = np.empty((self.layers, 0), np.float32)
        flags = np.empty((self.layers, 0), np.bool_)
        return MatrixWindow(none, none, none, values, values, flags, np.empty(0, np.int64))


def _public(block: _Block) -> MatrixWindow:
    return MatrixWindow(
        (block.x_first + block.x_last) / 2, block.x_first.copy(), block.x_last.copy(),
        block.mean.T.copy(), block.counted()[0].T.copy(), block.nonfinite.T.copy(), block.segment.astype(np.int64),
    )  # fmt: skip
