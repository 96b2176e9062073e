"""A pyramid of buckets over a stream of points: every resolution of a curve, in memory that stops growing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from . import buckets
from .buckets import AXIS, COUNT, ROWS, SEGMENT, X_HI, X_LO
from .ring import Ring, Table

BASE = 8
"""Points in a bucket of the finest level."""
BRANCHING = 4
LEVELS = 5
CAPACITY = 2048
"""Buckets a level. The coarsest covers 4.2 million points, then folds its buckets in pairs and doubles their size."""


class Pyramid:
    """Levels of 8, 32, 128, 512 and 2048 points a bucket, the newest 2048 buckets of each; the coarsest has them all.

    A bucket is always made of whole buckets of the level below. At most 5 × 2208 × 80 bytes = 880 kB.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        """`capacity`: buckets a level, four at least."""
        self._capacity = capacity
        self._rings = [Ring(ROWS, capacity, AXIS) for _ in range(LEVELS)]
        self._waiting = [0] * LEVELS
        """Newest buckets of each level that are in no bucket of the level above yet."""
        self._ends = [0] * LEVELS
        """Points each level has taken in."""
        self._last_group = BRANCHING

    @property
    def nbytes(self) -> int:
        """Bytes that it holds now, those that it shares with others among them."""
        return sum(ring.nbytes for ring in self._rings)

    def push(self, block: Table, level: int = 0) -> None:
        """Add buckets to a level, and to those above as their groups become complete."""
        while block.shape[1]:
            if level == LEVELS - 1:
                self._push_coarsest(block)
                return
            waiting = self._waiting[level]
            whole = np.concatenate((self._rings[level].last(waiting), block), axis=1) if waiting else block
            self._append(level, block)
            size = self._group(level)
            groups = whole.shape[1] // size
            self._waiting[level] = whole.shape[1] - groups * size
            block = buckets.fold(whole[:, : groups * size], size)
            level += 1

    def close_segment(self) -> None:
        """Finish the incomplete groups of all levels: what comes next belongs to another segment."""
        for level in range(LEVELS - 1):
            waiting, self._waiting[level] = self._waiting[level], 0
            if not waiting:
                continue
            bucket = buckets.fold_all(self._rings[level].last(waiting))
            if level + 1 == LEVELS - 1:
                self._push_coarsest(bucket)
            else:
                self._append(level + 1, bucket)
                self._waiting[level + 1] += 1

    def collect(self, x0: float, x1: float, enough: int, tail: Table, oldest_in_tail: int) -> Table:
        """Buckets in order that together hold every point there is, at the resolution that [x0, x1] needs.

        The finest level with at least `enough` buckets in the range, or the finest of all; coarser ones for what it
        no longer has. `tail` holds the newest points as buckets of one, the first of them number `oldest_in_tail`.
        """
        finest = next((level for level in reversed(range(LEVELS)) if self._in_range(level, x0, x1) >= enough), -1)
        pieces, covered = [], 0
        for level in reversed(range(-1, LEVELS)):
            end = self._ends[level] if level >= 0 else oldest_in_tail + tail.shape[1]
            if covered >= end:
                continue
            counts = self._rings[level].row(COUNT) if level >= 0 else tail[COUNT]
            starts = end - np.cumsum(counts[::-1])[::-1]
            until = np.inf
            if level > finest:
                until = oldest_in_tail if level == 0 else self._oldest(level - 1)
            begin, stop = map(int, np.searchsorted(starts, (covered, until)))
            if begin < stop:
                pieces.append(self._rings[level].part(begin, stop) if level >= 0 else tail[:, begin:stop])
                covered = int(starts[stop - 1] + counts[stop - 1])
        return np.concatenate(pieces, axis=1) if pieces else buckets.empty()

    def bucket_at(self, x: float) -> Table | None:
        """The newest bucket of the finest level that has one which begins at or before `x`; None before the first."""
        found = (ring.newest_at_most(X_LO, x) for ring in self._rings)
        return next((bucket for bucket in found if bucket is not None), None)

    def _group(self, level: int) -> int:
        return self._last_group if level == LEVELS - 2 else BRANCHING

    def _append(self, level: int, block: Table) -> None:
        self._rings[level].append(block)
        self._ends[level] += int(block[COUNT].sum())

    def _oldest(self, level: int) -> int:
        return self._ends[level] - int(self._rings[level].row(COUNT).sum())

    def _in_range(self, level: int, x0: float, x1: float) -> int:
        ring = self._rings[level]
        return int(np.count_nonzero(in_range(ring.row(X_LO), ring.row(X_HI), x0, x1)))

    def _push_coarsest(self, block: Table) -> None:
        level = LEVELS - 1
        while len(self._rings[level]) + block.shape[1] > self._capacity:
            self._fold_coarsest()
        self._append(level, block)

    def _fold_coarsest(self) -> None:
        ring = self._rings[LEVELS - 1]
        whole = ring.all()
        starts = buckets.pair_starts(whole[SEGMENT])
        if len(starts) > self._capacity * 3 // 4:
            # Thousands of segments: the bound on memory comes before their borders.
            starts = np.arange(0, whole.shape[1], 2)
        else:
            self._last_group *= 2
        ring.replace(buckets.fold_groups(whole, starts))


def in_range(first: Table, last: Table, x0: float, x1: float) -> NDArray[np.bool_]:
    """Which buckets share a step with [x0, x1], by their first and last steps."""
    return np.asarray((last >= x0) & (first <= x1))
