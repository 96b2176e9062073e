"""wandb's own files (`run-*.wandb`, offline or not): LevelDB log records of protobuf messages, of which the history
is taken.

A file begins with ":W&B", a magic number and a version. Blocks of 32 KiB hold records of CRC-32 (u32), length (u16),
type (u8: whole, first, middle, last) and data; the end of a block with no room for another header is filled with zeros.
"""

from __future__ import annotations

import json
import struct
import zlib

from .numbers import plain
from .protobuf import BYTES, FIXED64, VARINT, fields, signed, zigzag
from .reader import LogFacts, Row

MAGIC = b":W&B"
_FILE_HEADER, _RECORD_HEADER, _BLOCK = 7, 7, 32768
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_HISTORY, _RUN, _EXIT = 2, 17, 18
"""Fields of wandb_internal.Record."""
_STEP, _TIMESTAMP = "_step", "_timestamp"


class WandbReader:
    """Reads one file; every history record is a row. What begins with an underscore is wandb's own and left out."""

    format = "wandb"
    whole = False

    def __init__(self) -> None:
        self.facts = LogFacts()
        self._rest = b""
        self._offset = 0
        """Of the first byte of `_rest` in the file."""
        self._skip = _FILE_HEADER
        """Bytes still to come that are left out."""
        self._parts: list[bytes] = []

    def feed(self, data: bytes) -> list[Row]:
        """Rows of the records that are complete with `data`."""
        data = self._rest + data
        rows: list[Row] = []
        at, self._skip = self._skip, 0
        while True:
            room = _BLOCK - (self._offset + at) % _BLOCK
            if room < _RECORD_HEADER:
                at, room = at + room, _BLOCK
            if at + _RECORD_HEADER > len(data):
                break
            crc, length, kind = struct.unpack_from("<IHB", data, at)
            start = at + _RECORD_HEADER
            if _RECORD_HEADER + length > room:
                # A length that leads out of its block: the rest of the block cannot be read.
                self._damaged()
                at += room
                continue
            if start + length > len(data):
                break
            payload = data[start : start + length]
            at = start + length
            if kind not in (_WHOLE, _FIRST, _MIDDLE, _LAST) or zlib.crc32(data[start - 1 : start] + payload) != crc:
                self._damaged()
                continue
            message = self._joined(kind, payload)
            if message is not None and (row := self._record(message)) is not None:
                rows.append(row)
        self._skip = max(0, at - len(data))
        at = min(at, len(data))
        self._rest = data[at:]
        self._offset += at
        return rows

    def end(self) -> list[Row]:
        """A torn record stays torn."""
        return []

    def _damaged(self) -> None:
        self.facts.corrupt += 1
        self._parts = []

    def _joined(self, kind: int, payload: bytes) -> bytes | None:
        """The whole message, once its last part is there."""
        if kind == _WHOLE:
            return payload
        if kind == _FIRST:
            self._parts = [payload]
            return None
        if not self._parts:
            return None
        self._parts.append(payload)
        if kind == _MIDDLE:
            return None
        message, self._parts = b"".join(self._parts), []
        return message

    def _record(self, message: bytes) -> Row | None:
        try:
            for number, wire, _, payload in fields(message):
                if wire != BYTES:
                    continue
                if number == _HISTORY:
                    return _history(payload)
                if number == _RUN:
                    self._run(payload)
                elif number == _EXIT:
                    self.facts.exit_code = next((value for field, _, value, _ in fields(payload) if field == 1), 0)
        except (ValueError, struct.error):
            self.facts.bad += 1
        return None

    def _run(self, message: bytes) -> None:
        named = {number: payload for number, wire, _, payload in fields(message) if wire == BYTES}
        title = named.get(8) or named.get(1)
        if title:
            self.facts.title = title.decode("utf-8", "replace")


def _history(message: bytes) -> Row | None:
    values: dict[str, float] = {}
    step = None
    for number, wire, _, payload in fields(message):
        if number == 1 and wire == BYTES:
            _item(payload, values)
        elif number == 2 and wire == BYTES:
            step = next((signed(value) for field, _, value, _ in fields(payload) if field == 1), 0)
    told = values.pop(_STEP, None)
    wall = values.pop(_TIMESTAMP, None)
    if step is None and told is not None:
        step = int(told)
    values = {name: value for name, value in values.items() if not name.startswith("_")}
    return Row(step, values, wall) if values else None


def _item(message: bytes, values: dict[str, float]) -> None:
    """Add the number of a `HistoryItem`, if it is one; older versions of wandb write JSON, newer ones the number."""
    key, nested, found = "", list[str](), None
    for number, wire, value, payload in fields(message):
        if wire == BYTES and number == 1:
            key = payload.decode("utf-8", "replace")
        elif wire == BYTES and number == 2:
            nested.append(payload.decode("utf-8", "replace"))
        elif number == 5 and wire == VARINT:
            found = float(zigzag(value))
        elif number == 6 and wire == FIXED64:
            found = float(struct.unpack("<d", payload)[0])
        elif wire == BYTES and number in (8, 16):
            _flatten(".".join(nested) or key, _json(payload), values)
    if found is not None:
        values[".".join(nested) or key] = found


def _json(payload: bytes) -> object:
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        return None


def _flatten(name: str, value: object, values: dict[str, float]) -> None:
    if isinstance(value, dict):
        if "_type" not in value:
            for key, inner in value.items():
                _flatten(f"{name}.{key}", inner, values)
        return
    found = plain(value)
    if found is not None:
        values[name] = found
