"""TensorBoard's event files, written: frames of length, checksum, event, checksum. (Read in `sources/logs/events`.)"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ntstop.sources.logs.crc import masked_crc, masked_crcs

_TEXT_TYPE = 7
"""DT_STRING."""


def frame(event: bytes) -> bytes:
    """An event with its length and checksums."""
    length = struct.pack("<Q", len(event))
    return length + struct.pack("<I", masked_crc(length)) + event + struct.pack("<I", masked_crc(event))


def version_event(wall: float) -> bytes:
    """The first event of a file."""
    return b"\x09" + struct.pack("<d", wall) + _bytes(3, b"brain.Event:2")


def text_event(tag: str, step: int, wall: float, text: str) -> bytes:
    """A text of TensorBoard's text plugin, Markdown."""
    plugin = _bytes(1, _bytes(1, b"text"))
    shape = _bytes(2, b"\x08\x01")
    tensor = b"\x08" + varint(_TEXT_TYPE) + _bytes(2, shape) + _bytes(8, _utf8(text))
    value = _bytes(1, _utf8(tag)) + _bytes(8, tensor) + _bytes(9, plugin)
    return b"\x09" + struct.pack("<d", wall) + b"\x10" + varint(step) + _bytes(5, _bytes(1, value))


def scalar_frames(
    tag: str, steps: NDArray[np.int64], times: NDArray[np.float64], values: NDArray[np.float32]
) -> Iterator[bytes]:
    """The frames of the points of one scalar; those whose steps have one length in bytes are made together."""
    unsigned = steps.astype(np.uint64)
    sizes = np.ones(len(steps), np.int64)
    for bits in range(7, 64, 7):
        sizes += unsigned >= np.uint64(1 << bits)
    name = _bytes(1, _utf8(tag))
    size = len(name) + 5
    head = varint(1 << 3 | 2) + varint(size)
    summary = b"\x2a" + varint(len(head) + size) + head + name + b"\x15"
    begins = np.concatenate(([0], np.flatnonzero(np.diff(sizes)) + 1, [len(sizes)])).tolist()
    for start, stop in itertools.pairwise(begins):
        if stop > start:
            part = slice(start, stop)
            yield _equal_frames(int(sizes[start]), unsigned[part], times[part], values[part], summary)


def _equal_frames(
    size: int, steps: NDArray[np.uint64], times: NDArray[np.float64], values: NDArray[np.float32], summary: bytes
) -> bytes:
    """Frames of one length: an event is time, step (a varint of `size` bytes), and the summary with the value last."""
    length = 9 + 1 + size + len(summary) + 4
    rows = np.empty((len(steps), 12 + length + 4), np.uint8)
    head = struct.pack("<Q", length)
    rows[:, :12] = np.frombuffer(head + struct.pack("<I", masked_crc(head)), np.uint8)
    rows[:, 12] = 0x09
    rows[:, 13:21] = _raw(times.astype("<f8"), 8)
    rows[:, 21] = 0x10
    for index in range(size):
        digit = (steps >> np.uint64(7 * index)) & np.uint64(0x7F)
        rows[:, 22 + index] = digit | np.uint64(0x80 if index < size - 1 else 0)
    at = 22 + size
    rows[:, at : at + len(summary)] = np.frombuffer(summary, np.uint8)
    rows[:, at + len(summary) : 12 + length] = _raw(values.astype("<f4"), 4)
    rows[:, 12 + length :] = _raw(masked_crcs(rows[:, 12 : 12 + length]).astype("<u4"), 4)
    return rows.tobytes()


def _raw(numbers: NDArray[np.generic], size: int) -> NDArray[np.uint8]:
    """The bytes of numbers, a row each."""
    return np.ascontiguousarray(numbers).view(np.uint8).reshape(-1, size)


def _bytes(number: int, content: bytes) -> bytes:
    """A field that is length-delimited."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(value: int) -> bytes:
    """Protobuf's encoding of a number that is not negative: seven bits a byte, the lowest first."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")
