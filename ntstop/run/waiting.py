"""Blocks of steps that wait and become curves together: a job of slow steps writes two or three of them at a time, and
joining a hundred such blocks costs little more than one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntstop.sources import columns
from ntstop_probe.wire import Column, Steps

from .names import STEP_COLUMNS

MOST_BLOCKS = 128
MOST_POINTS = 16_384
"""What waits at most: a megabyte of small blocks, five of large ones."""
_SIZES = {"f4": 4, "f8": 8, "i4": 4, "i8": 8, "u1": 1}
_plain = attrgetter(*STEP_COLUMNS)

Take = Callable[[str, NDArray[Any], NDArray[Any], NDArray[Any]], None]
"""Adds points to the curve of a name: x, y and t."""


class WaitingSteps:
    """Blocks of one process, in order. Those that bring a new curve, or whose clock or steps have gaps, do not wait."""

    def __init__(self) -> None:
        self._blocks: list[Steps] = []
        self._points = 0
        self._known: tuple[set[str], set[str], set[str]] = set(), set(), set()
        """Names of the losses, rates and phases that have curves."""
        self._has: list[bool] = [False] * len(STEP_COLUMNS)

    def __bool__(self) -> bool:
        return bool(self._blocks)

    @property
    def full(self) -> bool:
        """It is time to `settle`."""
        return len(self._blocks) >= MOST_BLOCKS or self._points >= MOST_POINTS

    def add(self, block: Steps) -> tuple[float, float, float] | None:
        """Let a block wait; its first and last place on the step axis, and its last time. None where it may not."""
        ends = _ends(block)
        if ends is None or not self._is_known(block):
            return None
        self._blocks.append(block)
        self._points += block.count
        return ends

    def _is_known(self, block: Steps) -> bool:
        """Whether all its curves are there; from now on they are."""
        known = True
        for names, group in zip(self._known, (block.losses, block.lrs, block.phases), strict=True):
            if not group.keys() <= names:
                names.update(group)
                known = False
        for index, column in enumerate(_plain(block)):
            if column is not None and not self._has[index]:
                self._has[index] = True
                known = False
        return known

    def settle(self, take: Take) -> int:
        """Add what waits to the curves; the number of columns that did not fit and were left out."""
        blocks, self._blocks, self._points = self._blocks, [], 0
        stretch = Stretch.of(blocks)
        misfits = 0
        for index, name in enumerate(STEP_COLUMNS.values()):
            if self._has[index]:
                misfits += stretch.put(name, [_plain(block)[index] for block in blocks], take)
        for group, prefix in (("losses", ""), ("lrs", ""), ("phases", "phase/")):
            named = [getattr(block, group) for block in blocks]
            for name in _names(named):
                misfits += stretch.put(prefix + name, [columns.get(name) for columns in named], take)
        return misfits


@dataclass(slots=True)
class Stretch:
    """Points of several blocks in a row: how many each has, and where they lie."""

    counts: list[int]
    x: NDArray[np.float64]
    t: NDArray[np.float64]
    _parts: dict[bytes, tuple[NDArray[np.float64], NDArray[np.float64]]] = field(default_factory=dict)
    """(x, t) of some of the points, by which they are: columns that lack the same ones share theirs."""

    @classmethod
    def of(cls, blocks: Sequence[Steps]) -> Stretch:
        """The points of blocks whose clocks and steps have no gaps."""
        t = np.frombuffer(b"".join(block.t.data for block in blocks), "<f8")
        return cls([block.count for block in blocks], _axis(blocks), t)

    def put(self, name: str, column: Sequence[Column | None], take: Take) -> int:
        """Add a curve's columns, one a block and None where a block has none; how many did not fit."""
        there = [part for part in column if part is not None]
        kinds = {part.kind for part in there}
        if not there:
            return 0
        if len(there) < len(column) or len(kinds) > 1:
            return self._one_by_one(name, column, take)
        kind = kinds.pop()
        size = _SIZES[kind]
        data, bitmaps = [part.data for part in there], [part.present for part in there]
        if list(map(len, data)) != [count * size for count in self.counts]:
            return self._one_by_one(name, column, take)
        y = columns.values(Column(kind, b"".join(data)))
        if not any(bitmaps):
            take(name, self.x, y, self.t)
            return 0
        mask = self._mask(bitmaps)
        if mask is None:
            return self._one_by_one(name, column, take)
        take(name, *self._part(mask, y))
        return 0

    def _mask(self, bitmaps: Sequence[bytes]) -> NDArray[np.bool_] | None:
        """Which points are there; None where a bitmap is too long or too short."""
        lengths = [(count + 7) // 8 for count in self.counts]
        whole = [bitmap or b"\xff" * length for bitmap, length in zip(bitmaps, lengths, strict=True)]
        if list(map(len, whole)) != lengths:
            return None
        bits = np.unpackbits(np.frombuffer(b"".join(whole), np.uint8), bitorder="little").view(np.bool_)
        if len(bits) == len(self.x):
            return bits
        starts = [0, *accumulate(lengths)]
        pieces = [bits[8 * start : 8 * start + count] for start, count in zip(starts, self.counts, strict=False)]
        return np.concatenate(pieces)

    def _part(
        self, mask: NDArray[np.bool_], y: NDArray[Any]
    ) -> tuple[NDArray[np.float64], NDArray[Any], NDArray[np.float64]]:
        key = mask.tobytes()
        known = self._parts.get(key)
        if known is None:
            known = self._parts[key] = self.x[mask], self.t[mask]
        return known[0], y[mask], known[1]

    def _one_by_one(self, name: str, column: Sequence[Column | None], take: Take) -> int:
        misfits, at = 0, 0
        for part, count in zip(column, self.counts, strict=True):
            cut = slice(at, at + count)
            at += count
            if part is not None:
                misfits += not put(name, part, self.x[cut], self.t[cut], take)
        return misfits


def put(name: str, column: Column, x: NDArray[Any], t: NDArray[Any], take: Take) -> bool:
    """Add a column to a curve; False where it is not as long as `x` and `t`, and is left out."""
    try:
        y = columns.values(column)
        there = columns.present(column) if column.present else None
    except ValueError:
        return False
    if len(y) != len(x):
        return False
    if there is not None:
        x, y, t = x[there], y[there], t[there]
    take(name, x, y, t)
    return True


def _ends(block: Steps) -> tuple[float, float, float] | None:
    """First and last place on the step axis, and the last time; None where the times or steps lack any."""
    count, t, step = block.count, block.t, block.step
    if count <= 0 or t.kind != "f8" or t.present or len(t.data) != 8 * count:
        return None
    last = float(np.frombuffer(t.data, "<f8")[-1])
    if step is None:
        return float(block.ordinal), float(block.ordinal + count - 1), last
    if step.kind[0] == "f" or step.present or len(step.data) != _SIZES[step.kind] * count:
        return None
    steps = columns.values(step)
    return float(steps[0]), float(steps[-1]), last


def _axis(blocks: Sequence[Steps]) -> NDArray[np.float64]:
    return np.concatenate(
        [
            np.arange(block.ordinal, block.ordinal + block.count) if block.step is None else columns.values(block.step)
            for block in blocks
        ],
        dtype=np.float64,
        casting="unsafe",
    )


def _names(groups: Sequence[dict[str, Column]]) -> list[str]:
    """Names of all, in the order in which they come."""
    names = groups[0].keys()
    if all(group.keys() == names for group in groups):
        return list(names)
    return list(dict.fromkeys(name for group in groups for name in group))
