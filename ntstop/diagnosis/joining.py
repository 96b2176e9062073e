"""Small blocks of steps joined to larger ones: judging a block costs far more than judging a step of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter

import msgspec

from ntstop.sources import columns
from ntstop_probe import wire
from ntstop_probe.wire import ITEM_SIZES, Column

_NAMED = ("losses", "lrs", "phases")
_PLAIN = (
    "t", "duration", "step", "epoch", "samples", "tokens", "micro", "optimizers", "grad_norm", "clip", "loss_scale",
    "skipped", "zero_grads",
)  # fmt: skip
_plain = attrgetter(*_PLAIN)
_Shape = tuple[object, ...]


class Joiner:
    """Takes blocks of one process in order, and gives the same steps in as few blocks as can be: those that follow each
    other and have the same losses and rates become one. Of whole columns it keeps the bytes, not the blocks."""

    def __init__(self) -> None:
        self.steps = 0
        """Steps that it holds."""
        self._blocks: list[wire.Steps] = []
        self._first: wire.Steps | None = None
        """The first block of those that are being joined."""
        self._shape: _Shape | None = None
        self._buffers: list[bytearray] = []
        self._next = 0
        """The ordinal that follows."""

    def __bool__(self) -> bool:
        return self._first is not None

    def add(self, block: wire.Steps) -> None:
        """Take in the next block."""
        shape, data = _shape(block)
        if shape is not None and shape == self._shape and block.ordinal == self._next:
            for buffer, more in zip(self._buffers, data, strict=True):
                buffer += more
        else:
            self._close()
            self._first, self._shape, self._buffers = block, shape, list(map(bytearray, data))
        self._next = block.ordinal + block.count
        self.steps += block.count

    def take(self) -> list[wire.Steps]:
        """All that it holds; afterwards it holds nothing."""
        self._close()
        blocks, self._blocks, self.steps = self._blocks, [], 0
        groups: list[list[wire.Steps]] = []
        for block in blocks:
            if groups and _goes_on(groups[-1][-1], block):
                groups[-1].append(block)
            else:
                groups.append([block])
        return [block for group in groups for block in _filled(group)]

    def _close(self) -> None:
        first, self._first, self._shape = self._first, None, None
        if first is not None:
            count = self._next - first.ordinal
            self._blocks.append(first if count == first.count else _joined(first, count, iter(self._buffers)))


def _goes_on(before: wire.Steps, block: wire.Steps) -> bool:
    return (
        block.ordinal == before.ordinal + before.count
        and block.attempt == before.attempt
        and block.step_source == before.step_source
        and block.clocks == before.clocks
        and (block.step is None) == (before.step is None)
        and block.losses.keys() == before.losses.keys()
        and block.lrs.keys() == before.lrs.keys()
        and min(before.count, block.count) > 0
    )


def _filled(group: Sequence[wire.Steps]) -> Sequence[wire.Steps]:
    """One block, in which a step lacks what it lacked before; those there are where a column does not fit its block."""
    if len(group) == 1:
        return group
    counts = [block.count for block in group]
    changes: dict[str, object] = {"count": sum(counts)}
    for name, parts in zip(_PLAIN, zip(*map(_plain, group), strict=True), strict=True):
        if any(part is not None for part in parts):
            column = columns.joined(parts, counts)
            if column is None:
                return group
            changes[name] = column
    for field in _NAMED:
        named: list[dict[str, Column]] = [getattr(block, field) for block in group]
        whole: dict[str, Column] = {}
        for name in dict.fromkeys(name for found in named for name in found):
            column = columns.joined([found.get(name) for found in named], counts)
            if column is None:
                return group
            whole[name] = column
        changes[field] = whole
    return [msgspec.structs.replace(group[0], **changes)]


def _shape(block: wire.Steps) -> tuple[_Shape | None, list[bytes]]:
    """What two blocks must share, and the bytes of the columns; None and none where a step lacks a value, or a column
    is not as long as the block says."""
    count, kinds, data = block.count, list[object](), list[bytes]()
    for column in _plain(block):
        if column is None:
            kinds.append(None)
        elif column.present or len(column.data) != count * ITEM_SIZES[column.kind]:
            return None, []
        else:
            kinds.append(column.kind)
            data.append(column.data)
    for group in (block.losses, block.lrs, block.phases):
        for name, column in group.items():
            if column.present or len(column.data) != count * ITEM_SIZES[column.kind]:
                return None, []
            kinds += (name, column.kind)
            data.append(column.data)
        kinds.append(len(group))
    return (block.attempt, block.step_source, block.clocks, kinds), data


def _joined(first: wire.Steps, count: int, buffers: Iterator[bytearray]) -> wire.Steps:
    """`count` steps with the names and kinds of `first`, in the order of `_shape`."""
    changes: dict[str, object] = {"count": count}
    for name, column in zip(_PLAIN, _plain(first), strict=True):
        if column is not None:
            changes[name] = Column(column.kind, bytes(next(buffers)))
    for name in _NAMED:
        group: dict[str, Column] = getattr(first, name)
        changes[name] = {key: Column(column.kind, bytes(next(buffers))) for key, column in group.items()}
    return msgspec.structs.replace(first, **changes)
