"""One frame after the other, numbered: into the recording first, then to whoever listens."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from .live import LiveSocket
from .recording import Recording
from .wire import Hello, Record, Schema, encode_batch, encode_frame

_UNENCODABLE = (msgspec.MsgspecError, TypeError, ValueError, OverflowError, UnicodeError, RecursionError)


class Transmitter:
    """Encodes each batch once. `hello` makes the record that introduces this process.

    `recording` and `live` may each be None. `unencodable` counts records that could not be put into bytes (a step
    number of 30 digits): such a record is left out, its neighbours are not. `unrecorded` counts frames in no file.
    """

    def __init__(self, writer: int, hello: Callable[[], Hello]) -> None:
        self.recording: Recording | None = None
        self.live: LiveSocket | None = None
        self.unencodable = 0
        self.unrecorded = 0
        self.sequence = 0
        """Of the last frame."""
        self._writer = writer
        self._hello = hello
        self._schema: Schema | None = None

    def send(self, stream: int, records: Sequence[Record]) -> None:
        """Record and publish `records` as the next frame of `stream`. Raises nothing about the disk or the socket."""
        if not records:
            return
        self._begin_segment(stream)
        self._frame(stream, records)
        for record in records:
            if isinstance(record, Schema):
                self._schema = record

    def introduce(self, stream: int) -> None:
        """Say again who this is, and which layers it has."""
        if not self._begin_segment(stream):
            self._frame(stream, self._introduction())

    def _begin_segment(self, stream: int) -> bool:
        """Open the next segment where it is time, with an introduction as its first frame; True when it was."""
        if self.recording is None or not self.recording.wants_segment(stream):
            return False
        self.recording.open_segment(stream)
        self._frame(stream, self._introduction())
        return True

    def _introduction(self) -> list[Record]:
        hello = self._hello()
        return [hello, self._schema] if self._schema is not None else [hello]

    def _frame(self, stream: int, records: Sequence[Record]) -> None:
        try:
            frame = encode_frame(stream, self._writer, self.sequence + 1, encode_batch(records))
        except _UNENCODABLE:
            if len(records) == 1:
                self.unencodable += 1
            else:
                for record in records:
                    self._frame(stream, [record])
            return
        self.sequence += 1
        if self.recording is None or not self.recording.write(stream, frame):
            self.unrecorded += 1
        if self.live is not None:
            self.live.send(frame)
            self.live.welcome(self.sequence)
