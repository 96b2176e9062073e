"""CRC-32C (Castagnoli) of many byte strings of one length at a time, as TFRecord uses it."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

_POLYNOMIAL = 0x82F63B78
_MASK_DELTA = 0xA282EAD8


@functools.cache
def _table() -> NDArray[np.uint32]:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(_POLYNOMIAL), table >> 1).astype(np.uint32)
    return table


def masked_crcs(rows: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """The masked CRC-32C of each row of a (count × length) array: one table look-up a column, for all rows at once."""
    table = _table()
    crc = np.full(len(rows), 0xFFFFFFFF, dtype=np.uint32)
    for column in np.ascontiguousarray(rows.T):
        crc = table[(crc ^ column) & 0xFF] ^ (crc >> 8)
    crc = np.bitwise_xor(crc, np.uint32(0xFFFFFFFF))
    return (((crc >> 15) | (crc << 17)) + np.uint32(_MASK_DELTA)).astype(np.uint32)


def masked_crc(data: bytes) -> int:
    """The masked CRC-32C of one byte string."""
    table = _integers()
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


@functools.cache
def _integers() -> list[int]:
    return [int(value) for value in _table()]
