"""One number a layer over the steps, in at most 2,048 columns however long the run: what a heat map is drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .buckets import pair_starts

COLUMNS = 2048
"""Most step buckets of a field."""
_CELLS = 2_097_152
"""Most cells (layers × buckets) of a field, 13 bytes each: 27 MB. Beyond 1,024 layers there are fewer columns."""
_FEWEST_COLUMNS = 128
_PENDING = 64

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]


@dataclass(slots=True)
class _Block:
    """Buckets of samples, one a row: sums and maxima of the finite values of each layer, and how many they are."""

    x_first: NDArray[np.float64]
    x_last: NDArray[np.float64]
    segment: NDArray[np.float64]
    samples: NDArray[np.int64]
    mean: Floats
    high: Floats
    count: Floats
    nonfinite: Flags

    def __len__(self) -> int:
        return len(self.x_first)

    def part(self, rows: slice | NDArray[np.bool_]) -> _Block:
        """Some of the rows."""
        return _Block(*(getattr(self, name)[rows] for name in self.__slots__))

    def fold(self, starts: NDArray[np.intp]) -> _Block:
        """One bucket a group of rows; a group reaches from one of `starts` to the next."""
        ends = np.append(starts[1:], len(self)) - 1
        count = np.add.reduceat(self.count, starts, axis=0)
        total = np.add.reduceat(np.where(self.count > 0, self.mean * self.count, np.float32(0)), starts, axis=0)
        return _Block(
            np.minimum.reduceat(self.x_first, starts),
            np.maximum.reduceat(self.x_last, starts),
            self.segment[ends],
            np.add.reduceat(self.samples, starts),
            np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0),
            np.fmax.reduceat(self.high, starts, axis=0),
            count,
            np.logical_or.reduceat(self.nonfinite, starts, axis=0),
        )


def _join(blocks: Sequence[_Block]) -> _Block:
    return _Block(*(np.concatenate([getattr(block, name) for block in blocks]) for name in _Block.__slots__))


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
        self._done: list[_Block] = []
        self._open: _Block | None = None
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
        blocks = [*self._done, *([self._open] if self._open else [])]
        if not blocks:
            return None
        if len(blocks) == 1:
            return blocks[0]
        whole = _join(blocks)
        self._done = [whole.part(slice(0, len(whole) - 1))] if self._open else [whole]
        return whole

    def _settle(self) -> None:
        """Fold the samples that wait into buckets."""
        if not self._pending:
            return
        new = self._take()
        whole = _join([self._open, new]) if self._open else new
        # A bucket ends when it is full or its segment does. Its number within the segment's samples says which it is.
        before = np.cumsum(whole.samples) - whole.samples
        begins = np.concatenate(([True], whole.segment[1:] != whole.segment[:-1]))
        origin = np.maximum.accumulate(np.where(begins, before, 0))
        number = (before - origin) // self._size
        edges = begins | np.concatenate(([False], number[1:] != number[:-1]))
        folded = whole.fold(np.flatnonzero(edges))
        last = len(folded) - 1
        self._open = None
        if folded.samples[last] < self._size:
            self._open, folded = folded.part(slice(last, None)), folded.part(slice(0, last))
        if len(folded):
            self._done.append(folded)
        self._bound()

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
        return _Block(
            x, x, segment.astype(float), np.ones(len(x), np.int64), mean, mean, finite.astype(np.float32),
            ~finite & ~missing,
        )  # fmt: skip

    def _bound(self) -> None:
        """Fold in pairs while there are too many buckets."""
        while sum(map(len, self._done)) > self._capacity:
            whole = _join([*self._done, *([self._open] if self._open else [])])
            starts = pair_starts(whole.segment)
            if len(starts) > self._capacity * 3 // 4:
                starts = np.arange(0, len(whole), 2)
            folded = whole.fold(starts)
            self._size *= 2
            self._open, self._done = None, [folded]
            last = len(folded) - 1
            if folded.samples[last] < self._size:
                self._open, self._done = folded.part(slice(last, None)), [folded.part(slice(0, last))]

    def _empty(self) -> MatrixWindow:
        none = np.empty(0)
        values = np.empty((self.layers, 0), np.float32)
        flags = np.empty((self.layers, 0), np.bool_)
        return MatrixWindow(none, none, none, values, values, flags, np.empty(0, np.int64))


def _public(block: _Block) -> MatrixWindow:
    return MatrixWindow(
        (block.x_first + block.x_last) / 2, block.x_first.copy(), block.x_last.copy(),
        block.mean.T.copy(), block.high.T.copy(), block.nonfinite.T.copy(), block.segment.astype(np.int64),
    )  # fmt: skip
