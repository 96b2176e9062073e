"""Columns of the wire as numpy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntstop_probe.wire import ITEM_SIZES, Column

_DTYPES: dict[str, np.dtype[Any]] = {kind: np.dtype("<" + kind) for kind in ("f4", "f8", "i4", "i8", "u1")}


def values(column: Column) -> NDArray[Any]:
    """The numbers as they were packed, without a copy; what is missing is 0 (see `present`).

    Raises `ValueError` when the bytes are no whole number of items.
    """
    return np.frombuffer(column.data, _DTYPES[column.kind])


def present(column: Column) -> NDArray[np.bool_]:
    """True where something was measured. Raises `ValueError` when the bitmap does not fit the data."""
    count = len(values(column))
    if not column.present:
        return np.ones(count, np.bool_)
    if len(column.present) != (count + 7) // 8:
        raise ValueError(f"a bitmap of {len(column.present)} bytes does not fit {count} values")
    bits = np.unpackbits(np.frombuffer(column.present, np.uint8), count=count, bitorder="little")
    return bits.view(np.bool_)


def to_floats(column: Column) -> NDArray[np.float64]:
    """The numbers as float64, NaN where nothing was measured. A measured NaN looks the same: see `present`."""
    numbers = values(column).astype(np.float64)
    if column.present:
        numbers[~present(column)] = np.nan
    return numbers


def joined(parts: Sequence[Column | None], counts: Sequence[int]) -> Column | None:
    """One column of those of several blocks with so many steps each, None standing for a block that has none.

    None where one of them does not fit its block, or they are of different types. One at least must be there.
    """
    there = [part for part in parts if part is not None]
    kind = there[0].kind
    size = ITEM_SIZES[kind]
    lengths = [count * size for count in counts]
    if len(there) < len(parts):
        zeros = bytes(max(lengths))
        data = [zeros[:length] if part is None else part.data for part, length in zip(parts, lengths, strict=True)]
    else:
        data = [part.data for part in there]
    if list(map(len, data)) != lengths or any(part.kind != kind for part in there):
        return None
    bitmaps = [part.present for part in there]
    if len(there) == len(parts) and not any(bitmaps):
        return Column(kind, b"".join(data))
    bits = _bits(parts, counts)
    return None if bits is None else Column(kind, b"".join(data), np.packbits(bits, bitorder="little").tobytes())


def _bits(parts: Sequence[Column | None], counts: Sequence[int]) -> NDArray[np.uint8] | None:
    """1 for each step that has a value, else 0; None where a bitmap is too long or too short."""
    lengths = [(count + 7) // 8 for count in counts]
    none, every = bytes(max(lengths)), b"\xff" * max(lengths)
    whole = [
        none[:length] if part is None else part.present or every[:length]
        for part, length in zip(parts, lengths, strict=True)
    ]
    if list(map(len, whole)) != lengths:
        return None
    bits = np.unpackbits(np.frombuffer(b"".join(whole), np.uint8), bitorder="little")
    if len(bits) == sum(counts):
        return bits
    starts = accumulate([0, *lengths])
    return np.concatenate([bits[8 * start : 8 * start + count] for start, count in zip(starts, counts, strict=False)])
