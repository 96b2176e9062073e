"""What is exported: tables, blocks of rows, columns of cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

Table = Literal["steps", "scalars", "layers", "findings"]
TABLES: tuple[Table, ...] = get_args(Table)
Kind = Literal["f4", "f8", "i4", "i8", "u1", "text"]
"""As on the wire, and text."""
_INTEGERS = ("u1", "i4", "i8")

KEYS: dict[Table, dict[str, Kind]] = {
    "steps": {"rank": "i8", "attempt": "i8", "ordinal": "i8", "step": "i8", "time": "f8"},
    "scalars": {"rank": "i8", "attempt": "i8", "step": "i8", "time": "f8", "name": "text", "value": "f8"},
    "layers": {"rank": "i8", "attempt": "i8", "step": "i8", "time": "f8", "layer": "text"},
    "findings": {
        "id": "text", "kind": "text", "severity": "text", "status": "text", "area": "text", "failure_mode": "text",
        "first_step": "i8", "last_step": "i8", "rank": "i8", "where": "text", "symptom": "text", "hypothesis": "text",
        "fix": "text", "confidence": "text", "evidence": "text", "open_questions": "text",
    },
}  # fmt: skip
"""Columns that every table begins with; behind them `steps` has one a curve, and `layers` one a field.

`step` is the run's step axis: the job's global step where known, else the ordinal. `time` is Unix seconds. What is
`NESTED` is JSON, as `ntstop diagnose --json` has it.
"""

NESTED = ("evidence", "open_questions")


@dataclass(frozen=True, slots=True)
class Cells:
    """A column of a block. Of text, None is missing; of numbers, what `present` says (None: all are there)."""

    kind: Kind
    values: NDArray[Any] | list[str | None]
    present: NDArray[np.bool_] | None = None

    def plain(self) -> list[Any]:
        """The cells as Python's own values, None where nothing was measured; a float32 as its shortest number."""
        if isinstance(self.values, list):
            return self.values
        cells: list[Any] = (short(self.values) if self.kind == "f4" else self.values).tolist()
        if self.present is not None and not self.present.all():
            return [cell if there else None for cell, there in zip(cells, self.present.tolist(), strict=True)]
        return cells


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows of a table, by column; a column that is absent is missing in all of them."""

    table: Table
    count: int
    cells: dict[str, Cells]


@dataclass(slots=True)
class Columns:
    """The columns of every table, in order."""

    kinds: dict[Table, dict[str, Kind]] = field(default_factory=lambda: {table: dict(KEYS[table]) for table in TABLES})

    def note(self, table: Table, name: str, kind: Kind) -> None:
        """There is a column of this kind; of two kinds, the one that holds both."""
        kinds = self.kinds[table]
        known = kinds.get(name)
        if known != kind:
            kinds[name] = kind if known is None else _wider(known, kind)


class Sink(Protocol):
    """Something that takes blocks. Raises `OSError` where it cannot write."""

    def write(self, block: Block) -> None:
        """Take the next rows."""
        ...

    def close(self) -> None:
        """Write what is left."""
        ...


def column_name(table: Table, name: str) -> str:
    """The column of a curve: its name, but for the few that mean something else in the table."""
    return f"{name}_" if name in KEYS[table] else name


def constant(kind: Kind, value: float | None, count: int) -> Cells:
    """One number in every row, or in none."""
    if value is None:
        return Cells(kind, np.zeros(count, kind), np.zeros(count, np.bool_))
    return Cells(kind, np.full(count, value, kind))


def rows(block: Block, names: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    """The rows with these columns, as plain values."""
    absent: list[Any] = [None] * block.count
    columns = [block.cells[name].plain() if name in block.cells else absent for name in names]
    return zip(*columns, strict=True)


def short(numbers: NDArray[Any]) -> NDArray[np.float64]:
    """float32 as the float64 with the fewest digits that is the same float32: 0.1 rather than 0.10000000149."""
    exact = numbers.astype(np.float64)
    result = exact.copy()
    left = np.isfinite(exact) & (exact != 0.0)
    magnitude = np.floor(np.log10(np.abs(exact, where=left, out=np.ones_like(exact))))
    for digits in (6, 7, 8, 9):
        scale = 10.0 ** (digits - 1 - magnitude)
        with np.errstate(over="ignore", invalid="ignore"):
            rounded = np.rint(exact * scale) / scale
            same = left & (rounded.astype(np.float32) == numbers)
        result[same] = rounded[same]
        left &= ~same
    return result


def _wider(one: Kind, other: Kind) -> Kind:
    if one in _INTEGERS and other in _INTEGERS:
        return "i8"
    return "f8"
