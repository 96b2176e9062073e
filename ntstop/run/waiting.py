"""Blocks of steps that wait and become curves together: a job of slow steps writes two or three of them at a time, and
joining a hundred such blocks costs little more than one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntstop.sources import columns
from ntstop_probe.wire import ITEM_SIZES, Column, Steps

from .names import STEP_COLUMNS

MOST_BLOCKS = 128
MOST_POINTS = 16_384
"""What waits at most: a megabyte of small blocks, five of large ones."""
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
        plain = list(zip(*map(_plain, blocks), strict=True))
        for name, parts in zip(STEP_COLUMNS.values(), plain, strict=True):
            if any(part is not None for part in parts):
                misfits += stretch.put(name, parts, take)
        for group, prefix in (("losses", ""), ("lrs", ""), ("phases", "phase/")):
            named = [getattr(block, group) for block in blocks]
            for name in _names(named):
                misfits += stretch.put(prefix + name, [found.get(name) for found in named], take)
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

    def put(self, name: str, parts: Sequence[Column | None], take: Take) -> int:
        """Add a curve's columns, one a block and None where a block has none; how many did not fit."""
        column = columns.joined(parts, self.counts)
        if column is None:
            return self._one_by_one(name, parts, take)
        y = columns.values(column)
        if column.present:
            x, t = self._some(column)
            take(name, x, y[columns.present(column)], t)
        else:
            take(name, self.x, y, self.t)
        return 0

    def _some(self, column: Column) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(x, t) of the points that are there."""
        known = self._parts.get(column.present)
        if known is None:
            there = columns.present(column)
            known = self._parts[column.present] = self.x[there], self.t[there]
        return known

    def _one_by_one(self, name: str, parts: Sequence[Column | None], take: Take) -> int:
        misfits, at = 0, 0
        for part, count in zip(parts, self.counts, strict=True):
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
    if step.kind[0] == "f" or step.present or len(step.data) != ITEM_SIZES[step.kind] * count:
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
