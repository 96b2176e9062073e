"""Frames: how a batch of records is laid into a file, a socket message or a pipe. Settled for good.

    offset  size  field
         0     4  magic         b"\\xf1NTS" (the first byte never starts a line of text)
         4     1  version       of this layout, 1
         5     1  stream        0 core (steps, events, scalars, host ...), 1 layers
         6     2  flags         0 today; a reader ignores the bits it does not know
         8     8  writer        random id of the process that wrote it
        16     8  sequence      counts up by one over all streams of a writer: a jump is a loss, and says how much
        24     4  length        of the payload, at most `MAX_PAYLOAD`
        28     4  payload CRC   CRC-32 of the payload
        32     4  header CRC    CRC-32 of the 32 bytes before it
        36     …  payload       one MessagePack list of records

All integers are little-endian. A torn tail is the end of the file. A flipped bit anywhere costs the frame it is in:
the header has a CRC of its own, so a wrong length is never believed, and reading goes on at the next valid header.
"""

from __future__ import annotations

import struct
from typing import NamedTuple
from zlib import crc32

MAGIC = b"\xf1NTS"
VERSION = 1
STREAM_CORE = 0
STREAM_LAYERS = 1
MAX_PAYLOAD = 16 * 1024 * 1024

_BODY = struct.Struct("<4sBBHQQII")
_CRC = struct.Struct("<I")
HEADER_SIZE = _BODY.size + _CRC.size


class Frame(NamedTuple):
    """One frame: who wrote it (`writer`), where it belongs (`stream`), its place in the order (`sequence`)."""

    stream: int
    writer: int
    sequence: int
    payload: bytes
    version: int = VERSION


def encode_frame(stream: int, writer: int, sequence: int, payload: bytes) -> bytes:
    """The bytes of one frame. Raises `ValueError` when the payload is larger than `MAX_PAYLOAD` bytes."""
    if len(payload) > MAX_PAYLOAD:
        raise ValueError(f"a payload of {len(payload)} bytes is over the limit of {MAX_PAYLOAD}")
    body = _BODY.pack(MAGIC, VERSION, stream, 0, writer, sequence, len(payload), crc32(payload))
    return body + _CRC.pack(crc32(body)) + payload


def stream_prefix(stream: int) -> bytes:
    """The first bytes of every frame of a stream: what a ZeroMQ subscriber subscribes to."""
    return MAGIC + bytes((VERSION, stream))


def decode_frame(message: bytes) -> Frame | None:
    """The frame of this version that `message` is, from first to last byte; None when it is anything else."""
    if len(message) < HEADER_SIZE:
        return None
    magic, version, stream, _, writer, sequence, length, payload_crc = _BODY.unpack_from(message)
    (header_crc,) = _CRC.unpack_from(message, _BODY.size)
    if (
        magic != MAGIC
        or version != VERSION
        or length != len(message) - HEADER_SIZE
        or crc32(message[: _BODY.size]) != header_crc
    ):
        return None
    payload = message[HEADER_SIZE:]
    return Frame(stream, writer, sequence, payload) if crc32(payload) == payload_crc else None


class FrameReader:
    """Cuts a stream of bytes into frames, whatever the pieces it arrives in.

    `corrupt` counts frames that were lost and stretches of bytes that are no frame, `skipped_bytes` their length;
    `newer` counts frames of a later layout version, which are skipped whole. `pending` is how many bytes wait for
    the rest of their frame: at the end of a file, the torn tail.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._skipping = False
        self.corrupt = 0
        self.skipped_bytes = 0
        self.newer = 0

    @property
    def pending(self) -> int:
        """Bytes held back because their frame is not complete."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[Frame]:
        """Every frame that is complete once `data` has been added. Never raises for bad bytes."""
        self._buffer += data
        return self._drain(final=False)

    def finish(self) -> list[Frame]:
        """What can still be read when no more bytes will come: valid frames behind an unfinished one."""
        return self._drain(final=True)

    def _drain(self, *, final: bool) -> list[Frame]:
        buffer, position, frames = self._buffer, 0, list[Frame]()
        while True:
            found = buffer.find(MAGIC, position)
            if found < 0:
                # The last bytes may be the first ones of a magic.
                end = len(buffer) - (0 if final else _magic_prefix_at_end(buffer, position))
                self._skip(end - position)
                position = end
                break
            self._skip(found - position)
            position = found
            claimed = self._frame_end(position)
            if claimed is not None and claimed > len(buffer) and not final:
                break
            end = claimed or len(buffer) + 1
            frame = self._cut(position, end) if end <= len(buffer) else None
            if frame is None:
                # Not on to `end`: a write that broke off may have the next frames where its payload should be.
                self._skip(1, at_magic=True)
                position += 1
                continue
            position = end
            self._skipping = False
            if frame.version == VERSION:
                frames.append(frame)
            else:
                self.newer += 1
        del buffer[:position]
        return frames

    def _frame_end(self, position: int) -> int | None:
        """Where the frame at `position` ends (past the buffer when more bytes are needed); None for a bad header."""
        body_end = position + _BODY.size
        if len(self._buffer) - position < HEADER_SIZE:
            return position + HEADER_SIZE
        (header_crc,) = _CRC.unpack_from(self._buffer, body_end)
        if crc32(self._buffer[position:body_end]) != header_crc:
            return None
        length: int = _BODY.unpack_from(self._buffer, position)[6]
        return position + HEADER_SIZE + length if length <= MAX_PAYLOAD else None

    def _cut(self, position: int, end: int) -> Frame | None:
        """The frame between `position` and `end`; None when its payload is damaged."""
        _, version, stream, _, writer, sequence, _, payload_crc = _BODY.unpack_from(self._buffer, position)
        payload = bytes(self._buffer[position + HEADER_SIZE : end])
        return Frame(stream, writer, sequence, payload, version) if crc32(payload) == payload_crc else None

    def _skip(self, count: int, *, at_magic: bool = False) -> None:
        if count <= 0:
            return
        self.skipped_bytes += count
        if at_magic or not self._skipping:
            self.corrupt += 1
            self._skipping = True


def _magic_prefix_at_end(buffer: bytearray, start: int) -> int:
    for size in range(min(len(MAGIC) - 1, len(buffer) - start), 0, -1):
        if buffer.endswith(MAGIC[:size]):
            return size
    return 0
