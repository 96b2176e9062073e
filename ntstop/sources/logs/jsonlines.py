"""JSON lines: one object a line, with the numbers of one step; nested objects are named by their path."""

from __future__ import annotations

import json

from .lines import Lines
from .names import is_step, is_time, step_rank
from .numbers import integer, plain, unix_time
from .reader import LogFacts, Row

_DEPTH = 4
_TOTALS = ("total_steps", "max_steps")
_MOST = 1000
"""Numbers of one object; more are no metrics."""


class JsonLinesReader:
    """Reads one object a line; what is no object is counted and left out."""

    format = "JSON lines"
    whole = False

    def __init__(self) -> None:
        self.facts = LogFacts()
        self._lines = Lines()

    def feed(self, data: bytes) -> list[Row]:
        """The rows of the lines that are complete with `data`."""
        return self._rows(self._lines.feed(data))

    def end(self) -> list[Row]:
        """The row of the last line, if it is a whole object."""
        return self._rows(self._lines.end())

    def _rows(self, lines: list[str]) -> list[Row]:
        rows: list[Row] = []
        for line in lines:
            if not line.strip():
                continue
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                self.facts.bad += 1
                continue
            row = row_of(entry)
            if row is not None:
                self._take_total(row)
                rows.append(row)
            elif not isinstance(entry, dict):
                self.facts.bad += 1
        self.facts.bad += self._lines.too_long
        self._lines.too_long = 0
        return rows

    def _take_total(self, row: Row) -> None:
        """How many steps are to come is no curve."""
        for name in _TOTALS:
            total = integer(row.values.get(name))
            if total is not None and row.step is not None and total >= row.step:
                self.facts.total_steps = total
                del row.values[name]


def embedded(line: str) -> Row | None:
    """The row of an object that stands in a line of text, as fairseq prints it; None when there is none."""
    at = line.find('{"')
    try:
        return row_of(json.JSONDecoder().raw_decode(line, at)[0]) if at >= 0 else None
    except (ValueError, RecursionError):
        return None


def row_of(entry: object) -> Row | None:
    """The row of an object; None for what is none, or holds no number beside its step."""
    if not isinstance(entry, dict):
        return None
    values: dict[str, float] = {}
    wall = _flatten(entry, "", values, _DEPTH)
    name = min((name for name in values if is_step(name)), key=step_rank, default=None)
    step = integer(values[name]) if name is not None else None
    if name is not None and step is not None:
        del values[name]
    return Row(step, values, wall) if values else None


def _flatten(entry: dict[object, object], prefix: str, values: dict[str, float], depth: int) -> float | None:
    """Add the numbers of an object to `values`; returns the time in it."""
    wall = None
    for key, value in entry.items():
        name = f"{prefix}{key}"
        if not name.isascii():  # JSON may spell half a character, which no file and no terminal takes
            name = name.encode("utf-8", "replace").decode()
        if isinstance(value, dict):
            if depth:
                inner = _flatten(value, f"{name}/", values, depth - 1)
                wall = inner if wall is None else wall
            continue
        if is_time(name) and (told := unix_time(value)) is not None:
            wall = told
            continue
        found = plain(value)
        if found is not None and len(values) < _MOST:
            values[name] = found
    return wall
