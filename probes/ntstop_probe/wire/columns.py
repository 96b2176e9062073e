"""Packed columns: many numbers of one type in one byte string, with a bitmap of which are there.

NaN and Inf are values and travel as themselves; *missing is not zero*, so what was not measured is cleared in the
bitmap. The probe has no numpy: packing uses `array`, and a reader with numpy may use `np.frombuffer` on `data`.
"""

from __future__ import annotations

import array
import sys
from collections.abc import Sequence
from typing import Literal

import msgspec

Kind = Literal["f4", "f8", "i4", "i8", "u1"]

ITEM_SIZES = {"f4": 4, "f8": 8, "i4": 4, "i8": 8, "u1": 1}
"""Bytes of an item of each kind."""
_TYPECODE = {"f4": "f", "f8": "d", "i4": "i", "i8": "q", "u1": "B"}
_LITTLE = sys.byteorder == "little"


class Column(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """`n` numbers of one little-endian type.

    `kind` is numpy's name of the type without the byte order ("f4", "f8", "i4", "i8", "u1"). `data` holds `n` items,
    a missing one as 0. `present` is a bitmap, least significant bit first; empty means that every item is there.
    """

    kind: Kind
    data: bytes
    present: bytes = b""

    def __len__(self) -> int:
        return len(self.data) // ITEM_SIZES[self.kind]


def pack(kind: Kind, values: Sequence[float | int | None]) -> Column | None:
    """Pack `values` (`None` = missing) into a column; `None` when nothing at all is there.

    A float too large for "f4" becomes ±Inf, as a conversion to float32 does. Raises `OverflowError` for an integer
    outside its type.
    """
    missing = [index for index, value in enumerate(values) if value is None]
    if len(missing) == len(values):
        return None
    present = b""
    if missing:
        bits = bytearray(b"\xff" * ((len(values) + 7) // 8))
        for index in missing:
            bits[index >> 3] &= ~(1 << (index & 7)) & 0xFF
        if len(values) & 7:
            bits[-1] &= (1 << (len(values) & 7)) - 1
        present = bytes(bits)
    items = array.array(_TYPECODE[kind], [0 if value is None else value for value in values])
    if not _LITTLE:
        items.byteswap()
    return Column(kind, items.tobytes(), present)


def unpack(column: Column) -> list[float | int | None]:
    """The values of a column, `None` where nothing was measured. Raises `ValueError` when its bytes do not fit."""
    items = array.array(_TYPECODE[column.kind])
    items.frombytes(column.data)
    if not _LITTLE:
        items.byteswap()
    if not column.present:
        return list(items)
    if len(column.present) != (len(items) + 7) // 8:
        raise ValueError(f"a bitmap of {len(column.present)} bytes does not fit {len(items)} values")
    bits = column.present
    return [value if bits[index >> 3] >> (index & 7) & 1 else None for index, value in enumerate(items)]
