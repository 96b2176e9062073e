"""Columns of the wire as numpy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntstop_probe.wire import Column

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
