"""Steps of a log, one by one or as columns, as blocks of the wire."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ntstop_probe.wire import Column, Steps, pack

from .batch import Floats, Mask
from .batch import column as batched

SOURCE = "log"
"""`step_source` of what is read from a log."""


@dataclass(slots=True)
class OneStep:
    """One step as it is put together."""

    step: int
    wall: float | None
    losses: dict[str, float] = field(default_factory=dict)
    lrs: dict[str, float] = field(default_factory=dict)
    columns: dict[str, float] = field(default_factory=dict)
    training: bool = False
    others: list[tuple[float, dict[str, float]]] = field(default_factory=list)
    """What has no role, each with its time, to be told behind the step."""


def of_columns(
    ordinal: int, walls: Floats, steps: NDArray[np.int64], targets: Mapping[str, tuple[Floats, Mask | None]]
) -> Steps:
    """A block of steps that came as columns; NaN in `walls`: the log says no time."""
    columns = {
        name: packed
        for name, (numbers, mask) in targets.items()
        if (packed := batched("f4" if name == "duration" else "f8", numbers, mask)) is not None
    }
    clock = batched("f8", walls, None)
    assert clock is not None
    return Steps(
        count=len(steps),
        ordinal=ordinal,
        t=clock,
        duration=columns.get("duration"),
        step=whole(steps),
        step_source=SOURCE,
        epoch=columns.get("epoch"),
        samples=columns.get("samples"),
        tokens=columns.get("tokens"),
        losses={name: found for name, found in columns.items() if is_loss(name)},
        lrs={name: found for name, found in columns.items() if is_lr(name)},
        grad_norm=columns.get("grad_norm"),
        loss_scale=columns.get("loss_scale"),
    )


def of_steps(ordinal: int, block: Sequence[OneStep]) -> Steps:
    """A block of steps that came one by one; at least one."""
    clock = pack("f8", [math.nan if step.wall is None else step.wall for step in block])
    assert clock is not None

    def column(name: str) -> Column | None:
        return pack("f4" if name == "duration" else "f8", [step.columns.get(name) for step in block])

    return Steps(
        count=len(block),
        ordinal=ordinal,
        t=clock,
        duration=column("duration"),
        step=pack("i8", [step.step for step in block]),
        step_source=SOURCE,
        epoch=column("epoch"),
        samples=column("samples"),
        tokens=column("tokens"),
        losses=_columns([step.losses for step in block]),
        lrs=_columns([step.lrs for step in block]),
        grad_norm=column("grad_norm"),
        loss_scale=column("loss_scale"),
    )


def whole(numbers: NDArray[np.int64]) -> Column:
    """A column of integers, all there."""
    return Column("i8", numbers.astype("<i8").tobytes())


def is_loss(column: str) -> bool:
    """Whether the numbers of a column are losses of the training."""
    return column.startswith("loss") and column != "loss_scale"


def is_lr(column: str) -> bool:
    """Whether the numbers of a column are learning rates."""
    return column == "lr" or column.startswith("lr/")


def _columns(rows: list[dict[str, float]]) -> dict[str, Column]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: column for name in names if (column := pack("f8", [row.get(name) for row in rows])) is not None}
