"""Tables: CSV, TSV and the like with a header, such as Lightning's `metrics.csv`, Keras' CSVLogger and YOLO's
`results.csv`. An empty cell was not measured; a cell that is no number is left out and counted."""

from __future__ import annotations

import csv

from .batch import Batch
from .lines import Lines
from .names import is_step, is_time, step_rank
from .numbers import integer, number, unix_time
from .reader import LogFacts, Row
from .table_block import ABSENT, looks_numeric, read_block

DELIMITERS = ("\t", ",", ";")
_LOOKED_AT = 50
"""Lines that must show a column of numbers."""
_FORMATS = {"\t": "TSV", ",": "CSV", ";": "CSV"}


def split(line: str, delimiter: str) -> list[str]:
    """The cells of a line, without the blanks around them."""
    if '"' in line:
        try:
            return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [])]
        except csv.Error:
            pass
    return [cell.strip() for cell in line.split(delimiter)]


def header_of(lines: list[str]) -> tuple[str, list[str]] | None:
    """Delimiter and names of a table that begins with these lines; None when it is no table with numbers."""
    lines = [line for line in lines if line.strip() and not line.startswith("#")][:_LOOKED_AT]
    for delimiter in DELIMITERS:
        names = split(lines[0], delimiter) if lines else []
        if len(names) < 2 or not _is_header(names):
            continue
        rows = [split(line, delimiter) for line in lines[1:]]
        fitting = [cells for cells in rows if len(cells) == len(names)]
        has_step = any(is_step(name) for name in names)
        if len(fitting) < (0.5 if has_step else 0.8) * len(rows) or (not rows and not has_step):
            continue
        return delimiter, names
    return None


def has_numbers(lines: list[str], delimiter: str) -> bool:
    """Whether any column of the table holds a number, in its first lines."""
    rows = [split(line, delimiter) for line in lines[1:_LOOKED_AT]]
    return not rows or any(number(cell) is not None for cells in rows for cell in cells)


def _is_header(cells: list[str]) -> bool:
    named = [cell for cell in cells if cell]
    return (
        len(named) >= max(1, len(cells) - 1)
        and all(number(cell) is None and len(cell) < 200 for cell in named)
        and len(set(named)) == len(named)
    )


class TableReader:
    """Reads a table whose first line names its columns. A header that comes again begins the table anew."""

    whole = False

    def __init__(self, delimiter: str = ",") -> None:
        self.facts = LogFacts()
        self.format = _FORMATS.get(delimiter, "CSV")
        self._delimiter = delimiter
        self._lines = Lines()
        self._names: list[str] = []
        self._step: int | None = None
        self._times: list[int] = []

    def feed(self, data: bytes) -> list[Row]:
        """The rows of the lines that are complete with `data`."""
        return self._rows(self._lines.feed(data))

    def feed_batch(self, data: bytes) -> Batch | list[Row]:
        """The same, all rows at once where the lines are alike."""
        if not self._names and (at := data.find(b"\n")) >= 0:
            rows = self.feed(data[: at + 1])
            if rows or not self._names:
                return rows + self.feed(data[at + 1 :])
            data = data[at + 1 :]
        block = self._lines.block(data) if self._names else None
        if block is None:
            return self.feed(data)
        batch = read_block(block, self._delimiter, self._names, self._step, self._times)
        return self._rows(self._lines.split(block)) if batch is None else batch

    def end(self) -> list[Row]:
        """The row of the last line, if it has all of its cells."""
        return self._rows(self._lines.end())

    def _rows(self, lines: list[str]) -> list[Row]:
        rows: list[Row] = []
        for line in lines:
            if line.startswith("#") or not line.strip():
                continue
            cells = split(line, self._delimiter)
            if not self._names or cells[0] == self._names[0]:
                self._header(cells)
                continue
            row = self._row(cells)
            if row is not None:
                rows.append(row)
        self.facts.bad += self._lines.too_long
        self._lines.too_long = 0
        return rows

    def _header(self, names: list[str]) -> None:
        self._names = names
        steps = [index for index, name in enumerate(names) if is_step(name)]
        self._step = min(steps, key=lambda index: step_rank(names[index]), default=None)
        if self._step is None and names and not names[0]:
            # pandas writes the number of the row into a column without a name.
            self._step = 0
        self._times = [index for index, name in enumerate(names) if is_time(name)]

    def _row(self, cells: list[str]) -> Row | None:
        names = self._names
        if len(cells) != len(names):
            if len(cells) > len(names) and _is_header(cells):
                self._header(cells)
            else:
                self.facts.bad += 1
            return None
        wall = next((told for index in self._times if (told := unix_time(cells[index])) is not None), None)
        step = integer(number(cells[self._step])) if self._step is not None else None
        values: dict[str, float] = {}
        wrong = self._step is not None and step is None and cells[self._step].lower() not in ABSENT
        for index, cell in enumerate(cells):
            if not cell or index == self._step or (wall is not None and index in self._times):
                continue
            try:
                values[names[index]] = float(cell)
            except ValueError:
                found = number(cell)
                if found is not None:
                    values[names[index]] = found
                else:
                    wrong = wrong or looks_numeric(cell)
        self.facts.bad += wrong
        if wrong and self._step is not None and step is None:
            return None
        return Row(step, values, wall) if values else None
