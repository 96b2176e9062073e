"""A run that comes through a pipe, `ssh -n NODE ntstop relay RUN | ntstop -`, and what comes through a pipe at all."""

from __future__ import annotations

import time
from typing import Literal

from ntstop_probe.wire import MAGIC, Event, Frame, FrameReader, decode_batch

from .base import Arrival, SourceStatus, newer_protocol, removed_layers
from .decoding import Decoder
from .logs.sniff import piped
from .pipe import Pipe

GONE = "gone"
"""Kind of the event by which a relay tells that a process has left no exit record; `text` is the evidence."""
REMOVED = "removed"
"""Kind of the event by which a relay tells what of a recording its writer has removed: {"frames": int} in all."""
ASIDE = 0
"""Sequence number of a frame that is the relay's own: those of a writer begin at 1."""
_SILENCE = 2.5
"""Seconds without a frame until nothing is called live: a heartbeat comes every second."""
_BANNER = 64 * 1024
"""Bytes without a frame, or …"""
_PATIENCE = 10.0
"""… seconds after the first of them, until a pipe is taken for the output of a program."""


def content(pipe: Pipe, *, pattern: bool = False) -> Literal["frames", "text", "nothing"]:
    """What comes through `pipe`, by its content; nothing is taken out of it. Waits as long as nothing comes at all,
    and then for a frame behind what may be the banner of an ssh, unless that has the numbers of a training in it, or a
    pattern of the user's says that it is text."""
    while not (seen := pipe.peek(1.0)):
        if pipe.ended:
            return "nothing"
    deadline = time.monotonic() + _PATIENCE
    while MAGIC not in seen:
        left = deadline - time.monotonic()
        if pipe.ended or len(seen) > _BANNER or left <= 0 or pattern or piped(seen):
            return "text"
        seen = pipe.peek(left)
    return "frames"


class RelaySource:
    """Frames of any number of processes; what stands before the first one (a banner) is skipped.

    A frame without records is the relay's word that all that had been recorded has been sent.
    """

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._reader = FrameReader()
        self._decoders: dict[int, Decoder] = {}
        self._next: dict[int, int] = {}
        self._missing: dict[int, int] = {}
        """Frames of each writer that did not come between those that did."""
        self._before_first: dict[int, int] = {}
        """Frames of each writer before the first one that came."""
        self._tombstones: dict[int, int] = {}
        """Frames that each writer has removed, by the relay's word."""
        self._banner: int | None = None
        """1 where a stretch of bytes stands before the first frame, which is nobody's damage; None: not known yet."""
        self._heard = float("-inf")
        self._caught_up = False
        self._exited: set[int] = set()
        self.gone: dict[int, str] = {}
        """Writers that the relay knows to have gone without a word, and by what evidence."""

    @property
    def status(self) -> SourceStatus:
        """How the reading goes."""
        newer = max((d.newer for d in self._decoders.values() if d.newer is not None), default=None)
        ended = self._pipe.ended
        return SourceStatus(
            corrupt=max(0, self._reader.corrupt - (self._banner or 0)),
            skipped=sum(decoder.skipped for decoder in self._decoders.values()),
            gaps=sum(missing - self._removed(writer) for writer, missing in self._missing.items()),
            removed=next(
                (
                    removed_layers(self._decoders[writer].layers_from)
                    for writer in self._missing
                    if self._removed(writer)
                ),
                "",
            ),
            torn=self._reader.pending if ended else 0,
            newer=newer,
            live=self._caught_up and not ended and time.monotonic() - self._heard < _SILENCE,
            complete=self._caught_up or ended,
            problem=newer_protocol(newer) if newer is not None else self._problem(),
        )

    def poll(self, timeout: float) -> list[Arrival]:
        """The next burst of records; see `Source`."""
        deadline = time.monotonic() + timeout
        while True:
            data = self._pipe.read(deadline - time.monotonic())
            if data and self._banner is None:
                self._banner = int(data[0] != MAGIC[0])
            frames = self._reader.feed(data) if data else self._reader.finish() if self._pipe.ended else []
            if frames:
                self._heard = time.monotonic()
            if (arrivals := self._arrivals(frames)) or time.monotonic() >= deadline:
                return arrivals

    def refresh(self) -> None:
        """There is nothing but the pipe."""

    def close(self) -> None:
        """Hang up."""
        self._pipe.close()

    def _arrivals(self, frames: list[Frame]) -> list[Arrival]:
        arrivals: list[Arrival] = []
        for frame in frames:
            if len(frame.payload) <= 1:
                self._caught_up = True
                continue
            if frame.sequence == ASIDE:
                self._take_aside(frame)
                continue
            if frame.writer not in self._next:
                self._next[frame.writer] = frame.sequence
                self._before_first[frame.writer] = frame.sequence - 1
            expected = self._next[frame.writer]
            if frame.sequence < expected:
                continue
            self._missing[frame.writer] = self._missing.get(frame.writer, 0) + frame.sequence - expected
            self._next[frame.writer] = frame.sequence + 1
            decoder = self._decoders.setdefault(frame.writer, Decoder())
            arrivals += [arrival for arrival in decoder.arrivals([frame]) if not self._is_about_the_end(arrival)]
        return arrivals

    def _take_aside(self, frame: Frame) -> None:
        """Take in what the relay itself says of a writer."""
        for record in decode_batch(frame.payload)[0]:
            if isinstance(record, Event) and record.kind == REMOVED:
                frames = record.data.get("frames")
                self._tombstones[frame.writer] = frames if isinstance(frames, int) else 0

    def _removed(self, writer: int) -> int:
        """Of the frames that did not come, those that the writer had removed before."""
        removed = self._tombstones.get(writer, 0) - self._before_first.get(writer, 0)
        return min(max(removed, 0), self._missing.get(writer, 0))

    def _is_about_the_end(self, arrival: Arrival) -> bool:
        """Keep how a process ended; True for what the relay says of it, which is no part of the recording."""
        record = arrival.record
        if not isinstance(record, Event):
            return False
        if record.kind == "exit":
            self._exited.add(arrival.writer)
        elif record.kind == GONE:
            self.gone[arrival.writer] = record.text
            return True
        return False

    def _problem(self) -> str:
        if self._pipe.problem or not self._pipe.ended:
            return self._pipe.problem
        if not self._decoders:
            return "the pipe has ended before a frame came"
        on = self._decoders.keys() - self._exited - self.gone.keys()
        return "the pipe has ended: what comes later is not seen" if on else ""
