"""The last columns of a table that grows to a limit and then forgets its oldest."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float64]
"""One row a quantity, one column a point or bucket, oldest first."""

_FIRST_ALLOCATION = 16


class Ring:
    """The newest `capacity` columns of `rows` float64 rows. Memory grows by doubling up to the capacity, from none:
    some jobs log a hundred thousand names, once each."""

    def __init__(self, rows: int, capacity: int) -> None:
        self._table = np.empty((rows, 0))
        self._capacity = capacity
        self._start = 0
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def capacity(self) -> int:
        """Most columns it ever holds."""
        return self._capacity

    @property
    def nbytes(self) -> int:
        """Bytes allocated now."""
        return self._table.nbytes

    def append(self, block: Table) -> None:
        """Add the columns of `block`; the oldest fall out once there are more than `capacity`."""
        count = block.shape[1]
        if not count:
            return
        if count >= self._capacity:
            self._table = np.ascontiguousarray(block[:, -self._capacity :])
            self._start, self._size = 0, self._capacity
            return
        self._grow(self._size + count)
        width = self._table.shape[1]
        at = (self._start + self._size) % width
        first = min(count, width - at)
        self._table[:, at : at + first] = block[:, :first]
        if first < count:
            self._table[:, : count - first] = block[:, first:]
        over = max(0, self._size + count - width)
        self._start = (self._start + over) % width
        self._size += count - over

    def drop_last(self, count: int) -> None:
        """Take the newest `count` columns out again."""
        self._size -= min(count, self._size)

    def last(self, count: int) -> Table:
        """The newest `count` columns (all, where there are fewer), oldest first; not to be written to."""
        count = min(count, self._size)
        if not count:
            return self._table[:, :0]
        width = self._table.shape[1]
        begin = (self._start + self._size - count) % width
        end = begin + count
        if end <= width:
            return self._table[:, begin:end]
        return np.concatenate((self._table[:, begin:], self._table[:, : end - width]), axis=1)

    def newest_at_most(self, row: int, limit: float) -> Table | None:
        """The newest column whose number in `row` is at most `limit`, as a vector; None where there is none."""
        width, end = self._table.shape[1], self._start + self._size
        # What has gone round lies before the rest, and is newer.
        for begin, stop in ((0, end - width), (self._start, min(end, width))):
            if begin < stop and len(found := np.flatnonzero(self._table[row, begin:stop] <= limit)):
                column: Table = self._table[:, begin + found[-1]]
                return column
        return None

    def all(self) -> Table:
        """Every column, oldest first; not to be written to."""
        return self.last(self._size)

    def replace(self, block: Table) -> None:
        """Hold the columns of `block`, at most `capacity` of them, instead of what was there."""
        self._size = self._start = 0
        self.append(block)

    def _grow(self, needed: int) -> None:
        width = self._table.shape[1]
        if needed <= width or width == self._capacity:
            return
        width = width or min(_FIRST_ALLOCATION, self._capacity)
        while width < needed and width < self._capacity:
            width = min(2 * width, self._capacity)
        # Below its capacity the ring has never wrapped, so the columns lie in order from 0.
        grown = np.empty((self._table.shape[0], width))
        grown[:, : self._size] = self.all()
        self._table, self._start = grown, 0
