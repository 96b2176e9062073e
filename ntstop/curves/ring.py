"""The last columns of a table that grows to a limit and then forgets its oldest."""

from __future__ import annotations

import itertools
from collections.abc import Container

import numpy as np
from numpy.typing import NDArray

from .interning import interned

Table = NDArray[np.float64]
"""One row a quantity, one column a point or bucket, oldest first."""

_FIRST_ALLOCATION = 16
_BLOCKS = 16
"""Blocks that the capacity is divided into."""
_SHORTEST_BLOCK = 16
_AT_ONCE = 4
"""Blocks whose rows are interned at a time: reading a long recording puts in many at once, and soon forgets them."""


class Ring:
    """The newest `capacity` columns of `rows` float64 rows.

    The newest ones lie in a table that is written to, the others in blocks. Once something has come after a block,
    its rows that are `alike` in many rings, and those of one number throughout, are `interned`: rings that were given
    them at the same count hold them once. Memory grows from none by doubling up to a block, then by blocks: some jobs
    log a hundred thousand names, once each.
    """

    __slots__ = ("_alike", "_before", "_block", "_capacity", "_full", "_open", "_settled", "_size", "_used")

    def __init__(self, rows: int, capacity: int, alike: Container[int] = ()) -> None:
        self._capacity = capacity
        self._alike = alike
        self._block = max(_SHORTEST_BLOCK, capacity // _BLOCKS)
        self._full: list[Table | tuple[NDArray[np.float64], ...]] = []
        """Blocks, oldest first: rows where these are interned, tables as they came where they are not yet."""
        self._settled = 0
        """Blocks whose rows are interned."""
        self._open = np.empty((rows, 0))
        self._used = 0
        """Columns of the open table; those behind them are free."""
        self._before = 0
        """Columns before those of the open table since the first, the forgotten ones among them: whole blocks."""
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def nbytes(self) -> int:
        """Bytes that it holds now, those that it shares with others among them."""
        return self._open.nbytes + sum(row.nbytes for block in self._full for row in block)

    def append(self, block: Table) -> None:
        """Add the columns of `block`, which is kept: do not change it after. The oldest fall out once there are more
        than `capacity`."""
        end = self._before + self._used
        skipped = (end + block.shape[1] - self._capacity) // self._block * self._block - end
        if skipped > 0:
            # Nothing of what is there stays, nor what comes first.
            self._forget_all(end + skipped)
            block = block[:, skipped:].copy()
        self._size = min(self._capacity, self._size + block.shape[1])
        known = len(self._full)
        over = self._used + block.shape[1] - self._most
        if over > 0:
            block = self._make_blocks(block, -(-over // self._block))
        self._make_room(self._used + block.shape[1])
        self._open[:, self._used : self._used + block.shape[1]] = block
        self._used += block.shape[1]
        forgotten = min(len(self._full), self._hidden // self._block)
        del self._full[:forgotten]
        self._settled = max(0, self._settled - forgotten)
        if over <= self._block:
            self._settle(known - forgotten)

    def drop_last(self, count: int) -> None:
        """Take the newest `count` columns out again."""
        count = min(count, self._size)
        self._size -= count
        while count > self._used:
            count -= self._used
            rows = self._full.pop()
            self._settled = min(self._settled, len(self._full))
            self._make_room(self._block)
            self._open[:, : self._block] = rows
            self._before -= self._block
            self._used = self._block
        self._used -= count

    def last(self, count: int) -> Table:
        """The newest `count` columns (all, where there are fewer), oldest first; not to be written to."""
        return self.part(max(0, self._size - count), self._size)

    def all(self) -> Table:
        """Every column, oldest first; not to be written to."""
        return self.part(0, self._size)

    def part(self, begin: int, stop: int) -> Table:
        """The columns from `begin` to before `stop`, 0 for the oldest one; not to be written to."""
        begin, stop = begin + self._hidden, stop + self._hidden
        first = begin // self._block
        if first >= len(self._full):
            before = len(self._full) * self._block
            return self._open[:, begin - before : stop - before]
        blocks = [*self._full[first:], self._open[:, : self._used]]
        begin, stop = begin - first * self._block, stop - first * self._block
        table = np.empty((len(self._open), (len(blocks) - 1) * self._block + self._used))
        for row, numbers in enumerate(table):
            np.concatenate([block[row] for block in blocks], out=numbers)
        return table[:, begin:stop]

    def row(self, row: int) -> NDArray[np.float64]:
        """One number of every column, oldest first; not to be written to."""
        numbers = self._open[row, : self._used]
        if not self._full:
            return numbers[self._hidden :]
        return np.concatenate([*(block[row] for block in self._full), numbers])[self._hidden :]

    def newest_at_most(self, row: int, limit: float) -> Table | None:
        """The newest column whose number in `row` is at most `limit`, as a vector; None where there is none."""
        found = np.flatnonzero(self.row(row) <= limit)
        if not len(found):
            return None
        column: Table = self.part(int(found[-1]), int(found[-1]) + 1)[:, 0]
        return column

    def replace(self, block: Table) -> None:
        """Hold the columns of `block`, at most `capacity` of them, instead of what was there."""
        self._forget_all(0)
        self.append(block)

    def _forget_all(self, before: int) -> None:
        """Hold nothing; `before`: the columns that there have been."""
        self._full.clear()
        self._before, self._used, self._size, self._settled = before, 0, 0, 0

    @property
    def _hidden(self) -> int:
        """Columns that are forgotten, but lie in a block or table with others."""
        return len(self._full) * self._block + self._used - self._size

    def _settle(self, known: int) -> None:
        """Intern what is alike in some of the first `known` blocks: in no more at once than there is time for."""
        for index in range(self._settled, min(known, self._settled + _AT_ONCE)):
            self._full[index] = tuple(itertools.starmap(self._kept, enumerate(self._full[index])))
            self._settled += 1

    def _kept(self, row: int, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        alike = row in self._alike or (numbers[0] == numbers[-1] and (numbers == numbers[0]).all())
        return interned(numbers) if alike else numbers.copy()

    @property
    def _most(self) -> int:
        """Most columns of the open table."""
        return self._block + self._block // 4

    def _make_blocks(self, block: Table, count: int) -> Table:
        """Make so many blocks of the open columns and those of `block`; what is left of it."""
        self._before += count * self._block
        left = self._used - self._block
        if left >= 0:
            self._full.append(self._open[:, : self._block].copy())
            self._open[:, :left] = self._open[:, self._block : self._used].copy()
            self._used = left
            count -= 1
            if not count:
                return block
        taken = self._block - self._used
        self._full.append(np.concatenate((self._open[:, : self._used], block[:, :taken]), axis=1))
        self._used = 0
        end = taken + (count - 1) * self._block
        self._full.extend(block[:, at : at + self._block] for at in range(taken, end, self._block))
        return block[:, end:]

    def _make_room(self, needed: int) -> None:
        """Let the open table have at least so many columns."""
        rows, width = self._open.shape
        if width < needed:
            width = max(width, _FIRST_ALLOCATION)
            while width < needed:
                width *= 2
            grown = np.empty((rows, min(width, self._most)))
            grown[:, : self._used] = self._open[:, : self._used]
            self._open = grown
