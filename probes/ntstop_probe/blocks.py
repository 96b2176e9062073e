"""Rows of the training thread become records of the wire: runs of steps become columnar blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter

from .rows import LayerRow, Row, ScalarRow, SchemaRow, StepRow
from .wire import Column, Event, Layers, Record, Scalars, Schema, Steps, in_blocks, pack
from .wire.columns import Kind

U1_FIELDS = frozenset({"grad_nonfinite"})
"""Layer fields that are flags."""


def records_of(rows: Sequence[Row], attempt: int) -> tuple[list[Record], list[Record]]:
    """The records of a drain: those of the layers stream, and those of the core stream, each in its order.

    A schema comes before the layers that name it; steps come before what was logged in them.
    """
    layers: list[Record] = []
    steps: list[StepRow] = []
    scalars: list[Scalars] = []
    events: list[Record] = []
    for row in rows:
        if isinstance(row, StepRow):
            steps.append(row)
        elif isinstance(row, ScalarRow):
            scalars.append(Scalars(row.t, row.step, row.ordinal, row.values))
        elif isinstance(row, LayerRow):
            layers.append(layers_record(row))
        elif isinstance(row, SchemaRow):
            names, numel, dtypes = row.names, row.numel, row.dtypes
            layers.append(Schema(row.id, names, numel, dtypes, row.frozen, row.in_optimizer, row.shards))
        else:
            events.append(Event(row.t, row.kind, row.text, row.ordinal, row.step, row.duration, row.data))
    return layers, [*steps_records(steps, attempt), *in_blocks(scalars), *events]


def steps_records(rows: Iterable[StepRow], attempt: int) -> list[Record]:
    """`rows` as blocks: a new one where ordinals jump (rows were dropped) or what holds for a whole block changes."""

    def block(pair: tuple[int, StepRow]) -> tuple[object, ...]:
        index, row = pair
        return row.ordinal - index, row.step_source, row.clocks

    return [_steps([row for _, row in pairs], attempt) for _, pairs in groupby(enumerate(rows), key=block)]


def _steps(rows: list[StepRow], attempt: int) -> Steps:
    first = rows[0]

    def column(kind: Kind, name: str) -> Column | None:
        return _column(kind, list(map(attrgetter(name), rows)))

    t = column("f8", "t")
    assert t is not None
    return Steps(
        count=len(rows),
        ordinal=first.ordinal,
        t=t,
        duration=column("f4", "duration"),
        step=column("i8", "step"),
        step_source=first.step_source,
        attempt=attempt,
        epoch=column("i4", "epoch"),
        samples=column("i8", "samples"),
        tokens=column("i8", "tokens"),
        micro=column("i4", "micro"),
        optimizers=column("i4", "optimizers"),
        losses=_columns("f8", [row.losses for row in rows]),
        lrs=_columns("f8", [row.lrs for row in rows]),
        phases=_columns("f4", [row.phases for row in rows]),
        clocks=first.clocks,
        grad_norm=column("f8", "grad_norm"),
        clip=column("f4", "clip"),
        loss_scale=column("f8", "loss_scale"),
        skipped=column("u1", "skipped"),
        zero_grads=column("i4", "zero_grads"),
    )


def layers_record(row: LayerRow) -> Layers:
    """One sample of all layers, packed."""
    columns = {
        name: column
        for name, values in row.fields.items()
        if (column := _column("u1" if name in U1_FIELDS else "f4", values)) is not None
    }
    return Layers(row.schema, row.ordinal, row.step, row.t, columns, row.interval)


def _columns(kind: Kind, rows: list[dict[str, float]]) -> dict[str, Column]:
    names = dict.fromkeys(name for row in rows for name in row)
    packed = {name: _column(kind, [row.get(name) for row in rows]) for name in names}
    return {name: column for name, column in packed.items() if column is not None}


def _column(kind: Kind, values: Sequence[float | int | None]) -> Column | None:
    try:
        return pack(kind, values)
    except (OverflowError, TypeError, ValueError):
        # A number that its type cannot hold: that one value is what is lost, not the block.
        return pack(kind, [value if _fits(kind, value) else None for value in values])


def _fits(kind: Kind, value: float | int | None) -> bool:
    try:
        pack(kind, [value])
    except (OverflowError, TypeError, ValueError):
        return False
    return True
