"""TensorBoard event files: TFRecord frames of `tensorflow.Event` messages, of which the scalars are taken.

A frame is length (u64), masked CRC-32C of the length, data, masked CRC-32C of the data. A frame whose data is damaged
is left out; where a length is damaged, reading goes on at the next length whose checksum fits.
"""

from __future__ import annotations

import functools
import struct

import numpy as np
from numpy.typing import NDArray

from .batch import Batch
from .crc import masked_crc, masked_crcs
from .events_block import read_events
from .protobuf import BYTES, FIXED32, FIXED64, fields, signed, varint
from .reader import LogFacts, Row

LONGEST = 256 * 1024 * 1024
"""Bytes of an event; images and graphs are large, a damaged length is larger."""
_HEADER = 12
_FLOAT, _DOUBLE = struct.Struct("<f").unpack_from, struct.Struct("<d").unpack_from
_SCALAR_TYPES = {1: ("<f", 4), 2: ("<d", 8), 3: ("<i", 4), 9: ("<q", 8)}
"""DataType of a TensorProto to the format of its bytes."""


def is_events(head: bytes) -> bool:
    """Whether a file begins with a TFRecord frame."""
    return len(head) >= _HEADER and _length(head, 0) is not None


class EventReader:
    """Reads one event file; every event with scalars is a row."""

    format = "TensorBoard events"
    whole = False

    def __init__(self) -> None:
        self.facts = LogFacts()
        self._rest = b""
        self._skip = 0
        """Bytes of an event that is too long to be a scalar, and still to come."""
        self._lost = False
        """A damaged length was met, and no sound one after it yet."""

    def feed(self, data: bytes) -> list[Row]:
        """Rows of the frames that are complete with `data`."""
        return [row for event in self._events(data) if (row := self._row(event))]

    def feed_batch(self, data: bytes) -> Batch | list[Row]:
        """The same, all rows at once where the events are the usual ones, of a time, a step and one float32."""
        events = self._events(data)
        usual, others = read_events(events)
        rows = [row for event in others if (row := self._any_row(event))]
        if usual is not None and not rows:
            return usual
        return [row for event in events if (row := self._row(event))]

    def _events(self, data: bytes) -> list[bytes]:
        """The events that are complete with `data`."""
        if self._skip:
            skipped = min(self._skip, len(data))
            self._skip -= skipped
            data = data[skipped:]
        data = self._rest + data if self._rest else data
        spans, end = self._frames(data)
        self._rest = data[end:]
        return [data[start : start + size] for start, size in self._sound(data, spans)]

    def end(self) -> list[Row]:
        """A torn frame stays torn."""
        return []

    def _frames(self, data: bytes) -> tuple[list[tuple[int, int]], int]:
        """Start and size of the data of every complete frame, and where the first that is not complete begins."""
        spans: list[tuple[int, int]] = []
        at, size = 0, len(data)
        while at + _HEADER <= size:
            length = _length(data, at)
            if length is None:
                self.facts.corrupt += not self._lost
                self._lost = True
                at = _next_header(data, at + 1)
                continue
            self._lost = False
            end = at + _HEADER + length + 4
            if end > size:
                if length > LONGEST:
                    self.facts.bad += 1
                    self._skip = end - size
                    return spans, size
                break
            spans.append((at + _HEADER, length))
            at = end
        return spans, at

    def _sound(self, data: bytes, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Those whose checksum fits, in order. Checked together where they are of one length."""
        by_length: dict[int, list[int]] = {}
        for index, (_, length) in enumerate(spans):
            by_length.setdefault(length, []).append(index)
        whole = np.frombuffer(data, dtype=np.uint8)
        bad: set[int] = set()
        for length, indices in by_length.items():
            starts = np.array([spans[index][0] for index in indices])
            for part in range(0, len(starts), step := max(1, 4_000_000 // (length + 4))):
                cut = starts[part : part + step]
                rows: NDArray[np.uint8] = whole[cut[:, None] + np.arange(length + 4)]
                told = np.ascontiguousarray(rows[:, length:]).view("<u4")[:, 0]
                wrong = np.flatnonzero(masked_crcs(rows[:, :length]) != told)
                bad.update(indices[part + int(at)] for at in wrong)
        self.facts.corrupt += len(bad)
        return [span for index, span in enumerate(spans) if index not in bad] if bad else spans

    def _row(self, event: bytes) -> Row | None:
        row = _plain_row(event)
        return row if row is not None else self._any_row(event)

    def _any_row(self, event: bytes) -> Row | None:
        wall, step, summary = None, 0, []
        try:
            for number, wire, value, payload in fields(event):
                if number == 1 and wire == FIXED64:
                    wall = float(struct.unpack("<d", payload)[0])
                elif number == 2:
                    step = signed(value)
                elif number == 5 and wire == BYTES:
                    summary.append(payload)
            values: dict[str, float] = {}
            for message in summary:
                for number, wire, _, payload in fields(message):
                    if number == 1 and wire == BYTES:
                        _read_value(payload, values)
        except (ValueError, struct.error):
            self.facts.bad += 1
            return None
        return Row(step, values, wall) if values else None


def _plain_row(event: bytes) -> Row | None:
    """The row of an event as nearly all are: a time, a step, and one summary of one tag with one float32.

    None for all others, which are read field by field, five times as slowly.
    """
    try:
        if event[0] != 0x09 or event[9] != 0x10:
            return None
        step, at = varint(event, 10)
        # A summary of one value, and nothing behind it, in the short form of up to 127 bytes.
        left = len(event) - at
        if left > 129 or event[at] != 0x2A or event[at + 1] != left - 2:
            return None
        if event[at + 2] != 0x0A or event[at + 3] != left - 4 or event[at + 4] != 0x0A:
            return None
        start = at + 6
        end = start + event[at + 5]
        if end + 5 != len(event) or event[end] != 0x15:
            return None
    except (IndexError, ValueError):
        return None
    tag = _text(event[start:end])
    return Row(signed(step), {tag: _FLOAT(event, end + 1)[0]}, _DOUBLE(event, 1)[0]) if tag else None


@functools.lru_cache(maxsize=65_536)
def _text(tag: bytes) -> str:
    return tag.decode("utf-8", "replace")


def _read_value(message: bytes, values: dict[str, float]) -> None:
    """Add the scalar of a `Summary.Value`, if it is one."""
    tag, found = "", None
    for number, wire, _, payload in fields(message):
        if number == 1 and wire == BYTES:
            tag = payload.decode("utf-8", "replace")
        elif number == 2 and wire == FIXED32:
            found = float(struct.unpack("<f", payload)[0])
        elif number == 8 and wire == BYTES:
            found = _tensor_scalar(payload)
    if tag and found is not None:
        values[tag] = found


def _tensor_scalar(message: bytes) -> float | None:
    """The number in a `TensorProto` of no dimensions; None for any other tensor."""
    kind, content = 0, b""
    for number, wire, value, payload in fields(message):
        if number == 1:
            kind = value
        elif number == 2 and wire == BYTES and any(field == 2 for field, *_ in fields(payload)):
            return None
        elif (number in (5, 6) and wire in (FIXED32, FIXED64)) or (number in (4, 5, 6) and wire == BYTES):
            content = payload
        elif number in (7, 10):
            return float(signed(value)) if wire != BYTES else None
    code, size = _SCALAR_TYPES.get(kind, ("", 0))
    return float(struct.unpack(code, content)[0]) if code and len(content) == size else None


@functools.lru_cache(maxsize=4096)
def _header_crc(length: bytes) -> int:
    return masked_crc(length)


def _length(data: bytes, at: int) -> int | None:
    """The length of the frame at `at`; None where its checksum does not fit."""
    told = int.from_bytes(data[at + 8 : at + 12], "little")
    return int.from_bytes(data[at : at + 8], "little") if _header_crc(data[at : at + 8]) == told else None


def _next_header(data: bytes, at: int) -> int:
    """The next place from `at` on where a sound header stands; where the last one might still begin, if none does."""
    whole = np.frombuffer(data, dtype=np.uint8)
    last = len(data) - _HEADER
    while at <= last:
        end = min(last + 1, at + 1_000_000)
        rows = whole[np.arange(at, end)[:, None] + np.arange(_HEADER)]
        told = np.ascontiguousarray(rows[:, 8:]).view("<u4")[:, 0]
        found = np.flatnonzero(masked_crcs(rows[:, :8]) == told)
        if len(found):
            return at + int(found[0])
        at = end
    return max(at, last + 1)
