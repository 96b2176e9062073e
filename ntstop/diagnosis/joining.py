"""Small blocks of steps joined to larger ones: judging a block costs far more than judging a step of it."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import msgspec

from ntstop_probe import wire
from ntstop_probe.wire import Column

_NAMED = ("losses", "lrs", "phases")
_PLAIN = (
    "t", "duration", "step", "epoch", "samples", "tokens", "micro", "optimizers", "grad_norm", "clip", "loss_scale",
    "skipped", "zero_grads",
)  # fmt: skip
_plain = attrgetter(*_PLAIN)
SIZES = {"f4": 4, "f8": 8, "i4": 4, "i8": 8, "u1": 1}
"""Bytes of an item."""
_Shape = tuple[object, ...]


def joined(blocks: Sequence[wire.Steps]) -> list[wire.Steps]:
    """The same steps in as few blocks as can be: those that follow each other and have the same whole columns."""
    groups: list[list[wire.Steps]] = []
    shape: _Shape | None = None
    for block in blocks:
        own = _shape(block)
        follows = bool(groups) and block.ordinal == groups[-1][-1].ordinal + groups[-1][-1].count
        if own is not None and own == shape and follows:
            groups[-1].append(block)
        else:
            groups.append([block])
        shape = own
    return [group[0] if len(group) == 1 else _join(group) for group in groups]


def _shape(block: wire.Steps) -> _Shape | None:
    """What two blocks must share; None where a step lacks a value, or a column is not as long as the block says."""
    count, kinds = block.count, list[object]()
    for column in _plain(block):
        if column is None:
            kinds.append(None)
        elif column.present or len(column.data) != count * SIZES[column.kind]:
            return None
        else:
            kinds.append(column.kind)
    for group in (block.losses, block.lrs, block.phases):
        for name, column in group.items():
            if column.present or len(column.data) != count * SIZES[column.kind]:
                return None
            kinds += (name, column.kind)
        kinds.append(len(group))
    return block.attempt, block.step_source, block.clocks, kinds


def _join(group: Sequence[wire.Steps]) -> wire.Steps:
    first = group[0]
    changes: dict[str, object] = {"count": sum(block.count for block in group)}
    for name in _PLAIN:
        column: Column | None = getattr(first, name)
        if column is not None:
            changes[name] = Column(column.kind, b"".join(getattr(block, name).data for block in group))
    for name in _NAMED:
        changes[name] = {
            key: Column(column.kind, b"".join(getattr(block, name)[key].data for block in group))
            for key, column in getattr(first, name).items()
        }
    return msgspec.structs.replace(first, **changes)
