"""The recording of one process as it is played: each record with the time at which it was written."""

from __future__ import annotations

import struct
from collections import deque
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path

from ntstop_probe.wire import Heartbeat, Hello, Record, ScalarBlock, Steps

from .base import Arrival
from .decoding import Decoder
from .segments import Bookmark, ProcessRecording

_LAST = struct.Struct("<d")


@dataclass(slots=True)
class Clock:
    """Turns the monotonic clock of a writer into Unix time, never back: by its wall clock at the start, so that a wall
    clock that was set in between does no harm."""

    offset: float | None = None
    now: float = 0.0

    def at(self, record: Record) -> float:
        """When a record was written, Unix seconds; no earlier than the one before."""
        if self.offset is None and isinstance(record, Hello | Heartbeat):
            self.offset = record.wall - record.t
        if self.offset is not None and (t := time_of(record)) is not None:
            self.now = max(self.now, self.offset + t)
        return self.now


@dataclass(frozen=True, slots=True)
class Stand:
    """How far the recording of a process was played."""

    bookmark: Bookmark | None = None
    clock: Clock = field(default_factory=Clock)
    decoder: Decoder = field(default_factory=Decoder)
    taken: int = 0
    """Records behind the bookmark that have been taken. Clock and decoder are those of the bookmark."""


class Player:
    """Gives the records of a process one by one. `due` says when the next one was written."""

    def __init__(self, folder: Path, stand: Stand | None = None) -> None:
        """`stand`: where to go on."""
        self._stand = stand = stand or Stand()
        self.recording = ProcessRecording(folder, stand.bookmark)
        self.decoder = copy(stand.decoder)
        self._clock = copy(stand.clock)
        self._burst: deque[Arrival] = deque()
        self._taken = 0
        self.due: float | None = None
        """When the next record was written, Unix seconds; None where there is no more."""
        self._look()
        for _ in range(stand.taken):
            self.take()

    @property
    def stand(self) -> Stand:
        """How far it has come."""
        return replace(self._stand, taken=self._taken)

    def take(self) -> Arrival:
        """The next record. Raises `IndexError` where there is none."""
        arrival = self._burst.popleft()
        self._taken += 1
        self._look()
        return arrival

    def _look(self) -> None:
        while not self._burst:
            stand = Stand(self.recording.bookmark, copy(self._clock), copy(self.decoder))
            frames = self.recording.read()
            if not frames:
                self.due = None
                return
            self._burst.extend(self.decoder.arrivals(frames))
            self._stand, self._taken = stand, 0
        self.due = self._clock.at(self._burst[0].record)


def time_of(record: Record) -> float | None:
    """When a record was written, by the monotonic clock of its writer; None where it does not say."""
    if isinstance(record, Steps | ScalarBlock):
        return float(_LAST.unpack(record.t.data[-_LAST.size :])[0]) if record.t.data else None
    return getattr(record, "t", None)
