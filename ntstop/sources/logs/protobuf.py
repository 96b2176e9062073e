"""The protobuf wire format, as far as reading a few fields of a known message needs it."""

from __future__ import annotations

from collections.abc import Iterator

Field = tuple[int, int, int, bytes]
"""Number, wire type, value (of a varint; else 0), payload (of fixed and length-delimited fields; else b"")."""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_FIXED = {FIXED64: 8, FIXED32: 4}


def fields(message: bytes) -> Iterator[Field]:
    """The fields of a message in order. Raises `ValueError` where it is cut off or no protobuf message."""
    at, end = 0, len(message)
    while at < end:
        key, at = varint(message, at)
        wire = key & 7
        if wire == VARINT:
            value, at = varint(message, at)
            yield key >> 3, wire, value, b""
            continue
        if wire == BYTES:
            size, at = varint(message, at)
        elif wire in _FIXED:
            size = _FIXED[wire]
        else:
            raise ValueError(f"wire type {wire}")
        if at + size > end:
            raise ValueError("a field that is cut off")
        yield key >> 3, wire, 0, message[at : at + size]
        at += size


def varint(message: bytes, at: int) -> tuple[int, int]:
    """The unsigned varint at `at`, and where it ends. Raises `ValueError` where it is cut off."""
    value = shift = 0
    try:
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFF_FFFF_FFFF_FFFF, at
            shift += 7
            if shift > 63:
                raise ValueError("a varint of more than ten bytes")
    except IndexError:
        raise ValueError("a varint that is cut off") from None


def signed(value: int) -> int:
    """An int64, which travels as its two's complement."""
    return value - 2**64 if value >= 2**63 else value


def zigzag(value: int) -> int:
    """A sint64."""
    return (value >> 1) ^ -(value & 1)
