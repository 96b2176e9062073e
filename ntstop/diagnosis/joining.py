"""Small blocks of steps joined to larger ones: judging a block costs far more than judging a step of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ntstop_probe import wire
from ntstop_probe.wire import Column

_NAMED = ("losses", "lrs", "phases")
_PLAIN = (
    "t", "duration", "step", "epoch", "samples", "tokens", "micro", "optimizers", "grad_norm", "clip", "loss_scale",
    "skipped", "zero_grads",
)  # fmt: skip
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
    columns = [getattr(block, name) for name in _PLAIN]
    named: list[Mapping[str, Column]] = [getattr(block, name) for name in _NAMED]
    there = [column for column in columns if column is not None] + [c for group in named for c in group.values()]
    if any(column.present or len(column) != block.count for column in there):
        return None
    return (
        block.attempt,
        block.step_source,
        tuple(sorted(block.clocks.items())),
        tuple(column and column.kind for column in columns),
        *(tuple((name, column.kind) for name, column in group.items()) for group in named),
    )


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
