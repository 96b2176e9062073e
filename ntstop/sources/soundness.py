"""Whether a record can be meant as it stands; what cannot would mislead, or break, whoever works with it.

Checksums find damage; this finds what was written wrong: clocks that no clock shows, blocks whose columns are of
another length than the block. It is looked at once, where records come in, so that nobody behind has to. Free of numpy.
"""

from __future__ import annotations

import array
import sys

from ntstop_probe.wire import ITEM_SIZES, Column, Event, Heartbeat, Hello, Layers, Record, ScalarBlock, Steps

LATEST = 1e11
"""Seconds, 3,000 years: no clock of ours, since boot or since 1970, shows more."""


def is_sound(record: Record) -> bool:
    """False for a record that has to be left out whole. A single column that does not fit is the reader's to skip."""
    if isinstance(record, Steps):
        return _block_is_sound(record)
    if isinstance(record, ScalarBlock):
        return _rows_are_sound(record)
    if isinstance(record, Layers):
        return _is_time(record.t) and all(map(_is_whole, record.columns.values()))
    if isinstance(record, Heartbeat):
        return _is_time(record.t) and _is_time(record.wall) and _is_time(record.age)
    if isinstance(record, Hello):
        return _is_time(record.t) and _is_time(record.wall)
    if isinstance(record, Event):
        return _is_time(record.t) and (record.duration is None or _is_time(record.duration))
    return not hasattr(record, "t") or _is_time(record.t)


def _is_time(seconds: float) -> bool:
    return -LATEST < seconds < LATEST


def _block_is_sound(block: Steps) -> bool:
    """The times and the steps are what the rest of a block stands on."""
    return block.count > 0 and _are_steps(block.step, block.count) and _are_times(block.t, block.count)


def _rows_are_sound(block: ScalarBlock) -> bool:
    whole = _are_steps(block.step, block.count) and _are_steps(block.ordinal, block.count)
    return block.count > 0 and whole and not block.ordinal.present and _are_times(block.t, block.count)


def _are_steps(column: Column | None, count: int) -> bool:
    return column is None or (column.kind[0] != "f" and _fits(column, count))


def _are_times(column: Column, count: int) -> bool:
    if column.kind != "f8" or column.present or not _fits(column, count):
        return False
    times = array.array("d", column.data)
    if sys.byteorder != "little":
        times.byteswap()
    # A sum is quick, and becomes what one time in it is: NaN, infinite, absurd.
    return sum(map(abs, times)) < LATEST * count


def _fits(column: Column, count: int) -> bool:
    return len(column.data) == count * ITEM_SIZES[column.kind] and len(column.present) in (0, (count + 7) // 8)


def _is_whole(column: Column) -> bool:
    count, rest = divmod(len(column.data), ITEM_SIZES[column.kind])
    return not rest and len(column.present) in (0, (count + 7) // 8)
