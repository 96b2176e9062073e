"""One frame after the other, numbered: into the recording first, then to whoever listens."""

from __future__ import annotations

import contextlib
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
    `faults` has what failed in a way nobody foresaw, once each, "part: reason": the live socket is given up after
    that, the recording is tried again with the next frame.
    """

    def __init__(self, writer: int, hello: Callable[[], Hello]) -> None:
        self.recording: Recording | None = None
        self.live: LiveSocket | None = None
        self.unencodable = 0
        self.unrecorded = 0
        self.faults: list[str] = []
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

    def newcomers(self) -> bool:
        """True when a viewer has come since the last call."""
        try:
            return self.live is not None and self.live.newcomers()
        except BaseException as error:
            self._give_up_live(error)
            return False

    def introduce(self, stream: int) -> None:
        """Say again who this is, and which layers it has."""
        if not self._begin_segment(stream):
            introduction = self._introduction()
            if introduction:
                self._frame(stream, introduction)

    def _begin_segment(self, stream: int) -> bool:
        """Open the next segment where it is time, with an introduction as its first frame; True when it was."""
        try:
            if self.recording is None or not self.recording.wants_segment(stream):
                return False
            self.recording.open_segment(stream)
        except BaseException as error:
            self._fault("recording", error)
            return False
        introduction = self._introduction()
        if introduction:
            self._frame(stream, introduction)
        return True

    def _introduction(self) -> list[Record]:
        try:
            hello = self._hello()
        except BaseException as error:
            self._fault("introduction", error)
            return []
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
        if not self._record(stream, frame):
            self.unrecorded += 1
        if self.live is not None:
            try:
                self.live.send(frame)
                self.live.welcome(self.sequence)
            except BaseException as error:
                self._give_up_live(error)

    def _record(self, stream: int, frame: bytes) -> bool:
        try:
            return self.recording is not None and self.recording.write(stream, frame)
        except BaseException as error:
            self._fault("recording", error)
            return False

    def _give_up_live(self, error: BaseException) -> None:
        """Viewers read the recording from now on."""
        self._fault("live socket", error)
        live, self.live = self.live, None
        if live is not None:
            with contextlib.suppress(Exception):
                live.close()

    def _fault(self, part: str, error: BaseException) -> None:
        if not any(fault.startswith(f"{part}:") for fault in self.faults):
            self.faults.append(f"{part}: {type(error).__name__}: {error}"[:200])
