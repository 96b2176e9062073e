"""JSON lines: one object a row, with its table; no key where nothing was measured, null for a number not finite."""

from __future__ import annotations

import math
from typing import IO, Any

import msgspec

from ntstop.diagnosis.report import RunInfo

from .tables import NESTED, TABLES, Block, Columns, rows

SCHEMA_VERSION = 1


class JsonLinesSink:
    """Writes all tables into one file. The first line says of which run they are."""

    def __init__(self, file: IO[bytes], columns: Columns, run: RunInfo) -> None:
        self._file = file
        self._names = {table: list(columns.kinds[table]) for table in TABLES}
        self._encoder = msgspec.json.Encoder()
        head = {"table": "run", "schema_version": SCHEMA_VERSION, "id": run.id, "state": run.state, "host": run.host,
                "title": run.title}  # fmt: skip
        file.write(self._encoder.encode(head) + b"\n")

    def write(self, block: Block) -> None:
        """Take the next rows."""
        names = [name for name in self._names[block.table] if name in block.cells]
        objects = [_object(block.table, names, cells) for cells in rows(block, names)]
        self._file.write(self._encoder.encode_lines(objects))

    def close(self) -> None:
        """Nothing waits but in the file."""
        self._file.flush()


def _object(table: str, names: list[str], cells: tuple[Any, ...]) -> dict[str, Any]:
    row: dict[str, Any] = {"table": table}
    odd: dict[str, str] = {}
    for name, cell in zip(names, cells, strict=True):
        if cell is None:
            continue
        row[name] = msgspec.Raw(cell.encode()) if name in NESTED and table == "findings" else cell
        if isinstance(cell, float) and not math.isfinite(cell):
            odd[name] = "NaN" if math.isnan(cell) else "Infinity" if cell > 0 else "-Infinity"
    if odd:
        # The encoder writes null for it, as JSON has no such number.
        row["nonfinite"] = odd
    return row
