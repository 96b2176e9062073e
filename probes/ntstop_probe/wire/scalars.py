"""What a job logs, row by row, as blocks of columns: of 40 numbers a row, a block loads many times faster."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Sequence

from .columns import Column, pack, unpack
from .records import ScalarBlock, Scalars

FEWEST, MOST = 4, 1024
"""Rows of a block: of fewer, columns save nothing."""
_DENSITY = 0.5
"""Share of the cells of a block that hold a number, at least: what is missing takes its room too."""
_TOGETHER = 0.1
"""Seconds between numbers of one step that are one row: `add_scalar` logs them one by one."""


def in_blocks(rows: Sequence[Scalars]) -> list[Scalars | ScalarBlock]:
    """The same numbers in the same order of each name, in as few records as is worth it.

    Numbers of one step that came one after the other within a tenth of a second share the time of the first. What
    makes no block (an integer beyond 64 bits) stays as it is.
    """
    found: list[Scalars | ScalarBlock] = []
    for group in _groups(_together(rows)):
        block = _block(group) if len(group) >= FEWEST else None
        if block is None:
            found += group
        else:
            found.append(block)
    return found


def rows_of(block: ScalarBlock, names: Container[str] | None = None) -> Iterator[Scalars]:
    """The rows of a block, with the numbers of `names` only, where told; rows without any are left out, and so are
    columns that are not as long as the block. Raises `ValueError` where its times or steps do not fit."""
    times, ordinals = unpack(block.t), unpack(block.ordinal)
    steps = unpack(block.step) if block.step is not None else [None] * block.count
    if {len(times), len(ordinals), len(steps)} != {block.count}:
        raise ValueError(f"times or steps do not fit a block of {block.count}")
    columns = {name: _unpacked(column, block.count) for name, column in block.values.items() if _is_in(name, names)}
    for index, (t, ordinal, step) in enumerate(zip(times, ordinals, steps, strict=True)):
        values = {name: float(value) for name, column in columns.items() if (value := column[index]) is not None}
        if values and t is not None and ordinal is not None:
            yield Scalars(float(t), None if step is None else int(step), int(ordinal), values)


def _is_in(name: str, names: Container[str] | None) -> bool:
    return names is None or name in names


def _unpacked(column: Column, count: int) -> list[float | int | None]:
    try:
        items = unpack(column)
    except ValueError:
        items = []
    return items if len(items) == count else [None] * count


def _together(rows: Sequence[Scalars]) -> Iterator[Scalars]:
    """Rows of one step that have no name in common, as one."""
    open_row: Scalars | None = None
    values: dict[str, float] = {}
    for row in rows:
        if open_row is not None and _is_one(open_row, row) and values.keys().isdisjoint(row.values):
            values.update(row.values)
            continue
        if open_row is not None:
            yield Scalars(open_row.t, open_row.step, open_row.ordinal, values)
        open_row, values = row, dict(row.values)
    if open_row is not None:
        yield Scalars(open_row.t, open_row.step, open_row.ordinal, values)


def _is_one(first: Scalars, other: Scalars) -> bool:
    if (first.step, first.ordinal) != (other.step, other.ordinal):
        return False
    # Where neither says a time, both say NaN.
    return abs(other.t - first.t) <= _TOGETHER or (math.isnan(first.t) and math.isnan(other.t))


def _groups(rows: Iterator[Scalars]) -> Iterator[list[Scalars]]:
    """Rows that follow each other and share most of their names."""
    group: list[Scalars] = []
    names: set[str] = set()
    cells = 0
    for row in rows:
        union = names | row.values.keys()
        cells += len(row.values)
        if group and (len(group) >= MOST or cells < _DENSITY * len(union) * (len(group) + 1)):
            yield group
            group, union, cells = [], set(row.values), len(row.values)
        group.append(row)
        names = union
    if group:
        yield group


def _block(rows: list[Scalars]) -> ScalarBlock | None:
    names = dict.fromkeys(name for row in rows for name in row.values)
    try:
        t, ordinal = pack("f8", [row.t for row in rows]), pack("i8", [row.ordinal for row in rows])
        step = pack("i8", [row.step for row in rows])
        columns = {name: pack("f8", [row.values.get(name) for row in rows]) for name in names}
    except (OverflowError, TypeError, ValueError):
        return None
    if t is None or ordinal is None:
        return None
    return ScalarBlock(len(rows), t, ordinal, step, {name: column for name, column in columns.items() if column})
