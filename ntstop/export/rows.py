"""The second reading: records to blocks of rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ntstop.diagnosis.report import FindingEntry
from ntstop.run.names import logged_name
from ntstop.sources.base import Source
from ntstop.sources.columns import present, values
from ntstop_probe.wire import (
    Allocator,
    Column,
    Compiler,
    Device,
    Heartbeat,
    Hello,
    Host,
    Layers,
    Record,
    ScalarBlock,
    Scalars,
    Schema,
    Steps,
    rows_of,
)

from .survey import MEASURED
from .tables import KEYS, Block, Cells, Table, column_name, constant

_SCALARS = 4096
"""Rows of scalars that are put into one block."""
_ROW_KEYS = ("rank", "attempt", "step", "time", "name", "value")
Row = tuple[int | None, int, int, float, str, float]


@dataclass(slots=True)
class _Writer:
    """Where one process stands."""

    hello: Hello | None = None
    offset: float = math.nan
    """What makes Unix seconds of its clock."""
    schemas: dict[int, Schema] = field(default_factory=dict)
    x: float = 0.0
    ordinal: int | None = None
    """The last finished step, on the axis and as a number from 0."""
    stride: float = 1.0
    left: int = 0

    def at(self, step: int | None, ordinal: int) -> int:
        """A step on the axis."""
        if step is not None:
            return step
        return ordinal if self.ordinal is None else round(self.x + (ordinal - self.ordinal) * self.stride)


class Rows:
    """Blocks of all that a source brings, up to `records` of each writer. What does not fit together is left out."""

    def __init__(self, source: Source, records: Mapping[int, int], wanted: set[Table]) -> None:
        self._source = source
        self._records = records
        self._wanted = wanted
        self._writers: dict[int, _Writer] = {}
        self._scalars: list[Row] = []

    def __iter__(self) -> Iterator[Block]:
        """The blocks in the order of the records. Raises `SourceError`."""
        try:
            while arrivals := self._source.poll(0.0):
                for writer, _, record in arrivals:
                    yield from self._take(writer, record)
            if self._scalars:
                yield self._flush()
        finally:
            self._source.close()

    def _take(self, number: int, record: Record) -> Iterator[Block]:
        writer = self._writers.get(number)
        if writer is None:
            writer = self._writers[number] = _Writer(left=self._records.get(number, 0))
        writer.left -= 1
        if writer.left < 0:
            return
        if isinstance(record, Steps):
            block = _steps(writer, record)
            if block is not None and "steps" in self._wanted:
                yield block
        elif isinstance(record, Layers):
            if "layers" in self._wanted and (block := _layers(writer, record)) is not None:
                yield block
        elif isinstance(record, Schema):
            writer.schemas[record.id] = record
        elif isinstance(record, Hello | Heartbeat):
            if math.isnan(writer.offset):
                writer.offset = record.wall - record.t
            writer.hello = record if isinstance(record, Hello) else writer.hello
        elif "scalars" in self._wanted:
            self._scalars += _samples(writer, record)
            if len(self._scalars) >= _SCALARS:
                yield self._flush()

    def _flush(self) -> Block:
        rows, self._scalars = self._scalars, []
        cells: dict[str, Cells] = {}
        for name, column in zip(_ROW_KEYS, zip(*rows, strict=True), strict=True):
            kind = KEYS["scalars"][name]
            if kind == "text":
                cells[name] = Cells(kind, list(column))
                continue
            there = np.array([value is not None for value in column])
            cells[name] = Cells(kind, np.array([0 if value is None else value for value in column], kind), there)
        cells["time"] = _times(cells["time"].values)
        return Block("scalars", len(rows), cells)


def findings(entries: list[FindingEntry]) -> Block:
    """The table of the findings."""
    cells: dict[str, Cells] = {}
    for name, kind in KEYS["findings"].items():
        column = [getattr(entry, name) for entry in entries]
        if kind == "text":
            text = [cell if cell is None or isinstance(cell, str) else _json(cell) for cell in column]
            cells[name] = Cells(kind, text)
        else:
            there = np.array([value is not None for value in column], np.bool_)
            cells[name] = Cells(kind, np.array([value or 0 for value in column], kind), there)
    return Block("findings", len(entries), cells)


def _json(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=repr).decode()


def _who(writer: _Writer, count: int) -> dict[str, Cells]:
    hello = writer.hello
    return {
        "rank": constant("i8", hello.rank if hello else None, count),
        "attempt": constant("i8", hello.attempt if hello else 0, count),
    }


def _steps(writer: _Writer, block: Steps) -> Block | None:
    times = _cells(block.t, block.count)
    steps = _cells(block.step, block.count) if block.step is not None else None
    if times is None:
        return None
    ordinals = np.arange(block.ordinal, block.ordinal + block.count)
    axis = _axis(ordinals, steps)
    _advance(writer, block, axis)
    cells = _who(writer, block.count)
    cells["ordinal"] = Cells("i8", ordinals)
    cells["step"] = Cells("i8", axis)
    cells["time"] = _times(np.asarray(times.values) + writer.offset)
    told = {name: getattr(block, attribute) for attribute, name in MEASURED.items()}
    told |= {column_name("steps", name): column for name, column in (*block.losses.items(), *block.lrs.items())}
    told |= {f"phase/{name}": column for name, column in block.phases.items()}
    for name, column in told.items():
        if column is not None and (found := _cells(column, block.count)) is not None:
            cells[name] = found
    return Block("steps", block.count, cells)


def _axis(ordinals: NDArray[np.int64], steps: Cells | None) -> NDArray[np.int64]:
    """The global steps; the ordinals where there is none, moved along behind one that is known."""
    if steps is None:
        return ordinals
    axis = np.asarray(steps.values, np.int64)
    if steps.present is None or steps.present.all():
        return axis
    known = np.flatnonzero(steps.present)
    if not len(known):
        return ordinals
    nearest = known[np.clip(np.searchsorted(known, np.arange(len(axis)), side="right") - 1, 0, None)]
    return np.where(steps.present, axis, axis[nearest] + ordinals - ordinals[nearest])


def _advance(writer: _Writer, block: Steps, axis: NDArray[np.int64]) -> None:
    writer.ordinal = block.ordinal + block.count - 1
    writer.x = float(axis[-1])
    if block.count > 1 and axis[-1] > axis[0] and block.step_source != "log":
        writer.stride = float(axis[-1] - axis[0]) / (block.count - 1)


def _layers(writer: _Writer, sample: Layers) -> Block | None:
    schema = writer.schemas.get(sample.schema)
    if schema is None or not schema.names:
        return None
    count = len(schema.names)
    cells = _who(writer, count)
    cells["step"] = constant("i8", writer.at(sample.step, sample.ordinal), count)
    cells["time"] = _times(np.full(count, sample.t + writer.offset))
    cells["layer"] = Cells("text", list(schema.names))
    for name, column in sample.columns.items():
        if (found := _cells(column, count)) is not None:
            cells[column_name("layers", name)] = found
    return Block("layers", count, cells)


def _samples(writer: _Writer, record: Record) -> Iterator[Row]:
    """What is logged, and what is sampled of the host, the accelerators and the compiler."""
    hello = writer.hello
    rank, attempt = (hello.rank, hello.attempt) if hello else (None, 0)
    if isinstance(record, Scalars):
        step, time = writer.at(record.step, record.ordinal), record.t + writer.offset
        for name, value in record.values.items():
            yield rank, attempt, step, time, logged_name(name), float(value)
        return
    if isinstance(record, ScalarBlock):
        for row in _rows_of(record):
            yield from _samples(writer, row)
        return
    if isinstance(record, Host | Compiler):
        prefix = "host" if isinstance(record, Host) else "compile"
    elif isinstance(record, Device | Allocator):
        prefix = f"{'gpu' if isinstance(record, Device) else 'alloc'}{record.index}"
    else:
        return
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if name not in ("t", "index") and isinstance(value, int | float) and not isinstance(value, bool):
            yield rank, attempt, round(writer.x), record.t + writer.offset, f"{prefix}/{name}", float(value)


def _rows_of(block: ScalarBlock) -> Iterator[Scalars]:
    try:
        yield from rows_of(block)
    except ValueError:
        return


def _cells(column: Column, count: int) -> Cells | None:
    """A column of the wire; None where it is not as long as its block."""
    try:
        numbers = values(column)
        there = present(column) if column.present else None
    except ValueError:
        return None
    return Cells(column.kind, numbers, there) if len(numbers) == count else None


def _times(times: Any) -> Cells:
    """Unix seconds; a time that is not known is missing."""
    there = np.isfinite(times)
    return Cells("f8", times, None if there.all() else there)
