"""The lines of a table that are all alike, a megabyte of them at once. What is odd in any way is left to the reader of
single lines, which knows what to do with it."""

from __future__ import annotations

import contextlib

import numpy as np
from numpy.typing import NDArray

from .batch import Batch, Floats, Mask
from .lines import text_of
from .numbers import number, unix_time

ABSENT = frozenset({"", "-", "n/a", "na", "none", "null", "nat", "true", "false"})
_EPOCH_SECONDS, _EPOCH_MILLISECONDS = 1e9, 1e12
_STEPS_BELOW = 2.0**62
_NEWLINE = 10


def looks_numeric(cell: str) -> bool:
    """A cell that was meant as a number, and is none: "3e", "1.2.3"."""
    return cell[0] in "0123456789+-." and cell.lower() not in ABSENT and unix_time(cell) is None


def read_block(block: bytes, delimiter: str, names: list[str], step: int | None, times: list[int]) -> Batch | None:
    """The rows of a block of whole lines without the last line end; None where a line is odd."""
    header = names[0].encode()
    if b'"' in block or b"#" in block or b"\x00" in block or not header or header in block:
        return None
    cells = _cells(block, delimiter, len(names))
    if cells is None:
        return None
    count = len(cells) // len(names)
    columns = [cells[index :: len(names)] for index in range(len(names))]
    steps = _steps(columns[step]) if step is not None else None
    if step is not None and steps is None:
        return None
    walls = _walls([columns[index] for index in times])
    if isinstance(walls, str):
        return None
    values: dict[str, tuple[Floats, Mask | None]] = {}
    for index, name in enumerate(names):
        if index == step or (walls is not None and index in times):
            continue
        found = _numbers(columns[index])
        if found is None or name in values:
            return None
        if found[1] is None or found[1].any():
            values[name] = found
    return _without_empty(Batch(count, steps, walls, values))


def _cells(block: bytes, delimiter: str, width: int) -> list[bytes] | None:
    """The cells of all lines in one list; None where a line has another number of them."""
    raw = np.frombuffer(block, np.uint8)
    mark = ord(delimiter)
    separators = raw[(raw == mark) | (raw == _NEWLINE)]
    count = len(separators) + 1
    if width < 2 or count % width:
        return None
    ends = np.append(separators, np.uint8(_NEWLINE)).reshape(-1, width)
    if (ends[:, -1] != _NEWLINE).any() or (ends[:, :-1] != mark).any():
        return None
    return block.replace(b"\n", delimiter.encode()).split(delimiter.encode())


def _numbers(cells: list[bytes]) -> tuple[Floats, Mask | None] | None:
    """A column and where it has a number; None where a cell was meant as one and is none."""
    with contextlib.suppress(ValueError):
        return _floats(cells), None
    there = np.array([bool(cell) for cell in cells])
    with contextlib.suppress(ValueError):
        return _floats([cell or b"0" for cell in cells]), there
    numbers = np.zeros(len(cells))
    for index, cell in enumerate(cells):
        text = text_of(cell).strip()
        found = number(text)
        there[index] = found is not None
        if found is not None:
            numbers[index] = found
        elif text and looks_numeric(text):
            return None
    return numbers, there


def _floats(cells: list[bytes]) -> Floats:
    """Raises `ValueError` where a cell is none. "1_0", which Python takes for one, is none."""
    numbers = np.fromiter(map(float, cells), np.float64, len(cells))
    if b"_" in b"".join(cells):
        raise ValueError("an underscore")
    return numbers


def _steps(cells: list[bytes]) -> NDArray[np.int64] | None:
    try:
        numbers = _floats(cells)
    except ValueError:
        return None
    with np.errstate(invalid="ignore"):
        whole = (np.floor(numbers) == numbers) & (np.abs(numbers) < _STEPS_BELOW)
    return numbers.astype(np.int64) if whole.all() else None


def _walls(columns: list[list[bytes]]) -> Floats | str | None:
    """The times that all rows have in the first of these columns; None where no row has any; "odd" for all else."""
    if not columns:
        return None
    walls = [_unix_times(cells) for cells in columns]
    if not np.isnan(walls[0]).any():
        return walls[0]
    return None if all(np.isnan(wall).all() for wall in walls) else "odd"


def _unix_times(cells: list[bytes]) -> Floats:
    """As `unix_time` reads them; NaN where that is none."""
    try:
        seconds = _floats(cells)
    except ValueError:
        told = (unix_time(text_of(cell).strip()) for cell in cells)
        return np.array([np.nan if wall is None else wall for wall in told])
    with np.errstate(invalid="ignore"):
        seconds = np.where(seconds >= _EPOCH_MILLISECONDS, seconds / 1000.0, seconds)
        return np.where((seconds >= _EPOCH_SECONDS) & (seconds < _EPOCH_MILLISECONDS), seconds, np.nan)


def _without_empty(batch: Batch) -> Batch:
    """Rows without any number are none."""
    masks = [mask for _, mask in batch.values.values()]
    if any(mask is None for mask in masks):
        return batch
    filled = (
        np.logical_or.reduce([mask for mask in masks if mask is not None]) if masks else np.zeros(batch.count, bool)
    )
    return batch if filled.all() else batch.part(filled)
