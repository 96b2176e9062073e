"""A run that has ended, played again: its records in the order and, at any speed, at the pace in which they came."""

from __future__ import annotations

import heapq
import itertools
import math
import struct
import threading
import time
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path

from ntstop_probe.wire import Heartbeat, Hello, Record, Steps

from .base import Arrival, SourceStatus, removed_layers
from .decoding import Decoder
from .runs import RunEntry
from .segments import ProcessRecording
from .tail import read_tail

SPEEDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_FIRST_SPEED = 10
_BURST = 4096
"""Records of one poll at most."""
_LOOK_AGAIN = 0.05
"""Seconds between two looks at what is due."""
_LAST = struct.Struct("<d")

Timed = tuple[float, Arrival]
"""A record and when it was written, Unix seconds."""


class ReplaySource:
    """Plays the recordings of a run that has ended, up to `position`.

    `seek`, `toggle` and `change_speed` may be called from any thread, the rest from that of the reader. Times are Unix
    seconds by the clock of each writer at its start, so that a clock that was set in between does no harm. What was
    heard cannot be taken back: after a seek to an earlier time everything comes again from the first record on, which
    `rewound` says once.
    """

    def __init__(self, entry: RunEntry) -> None:
        self._folders = [process.path for process in entry.processes]
        self._lock = threading.Lock()
        self._recordings: list[ProcessRecording] = []
        self._decoders: list[Decoder] = []
        self._records: Iterator[Timed] = iter(())
        self._next: Timed | None = None
        self._restart()
        self.start = (self._next[0] if self._next else 0.0) or entry.started or 0.0
        """When the run began."""
        self.end = max((_end_of(folder) for folder in self._folders), default=self.start)
        """When its last record was written."""
        self.end = max(self.end, self.start)
        self.speed = _FIRST_SPEED
        """Seconds of the run in one second."""
        self.playing = False
        self._anchor = self.end
        self._anchor_at = 0.0
        self._fed = -math.inf
        """When the last record that was given out was written."""
        self._rewound = True
        self.settled = False
        """Everything up to the position has been given out."""

    @property
    def position(self) -> float:
        """What is shown, Unix seconds of the run."""
        with self._lock:
            return self._now()

    @property
    def status(self) -> SourceStatus:
        """How the reading goes; complete at the end of the run only."""
        counts = [recording.counts for recording in self._recordings]
        return SourceStatus(
            corrupt=sum(count.corrupt for count in counts),
            skipped=sum(decoder.skipped for decoder in self._decoders),
            gaps=sum(recording.gaps for recording in self._recordings),
            torn=sum(count.torn for count in counts),
            complete=self._next is None,
            removed=next(
                (
                    removed_layers(decoder.layers_from)
                    for recording, decoder in zip(self._recordings, self._decoders, strict=True)
                    if recording.removed
                ),
                "",
            ),
            problem=next((recording.problem for recording in self._recordings if recording.problem), ""),
        )

    def seek(self, share: float) -> None:
        """Go by this share of the whole run, back where it is negative."""
        with self._lock:
            self._place(self._now() + share * (self.end - self.start))

    def toggle(self) -> None:
        """Play or stop; at the end: from the beginning."""
        with self._lock:
            now = self._now()
            self.playing = not self.playing or now >= self.end
            self._place(self.start if self.playing and now >= self.end else now)

    def change_speed(self, places: int) -> None:
        """The next or the one before of `SPEEDS`."""
        with self._lock:
            now = self._now()
            place = SPEEDS.index(self.speed) + places
            self.speed = SPEEDS[min(max(place, 0), len(SPEEDS) - 1)]
            self._place(now)

    def rewound(self) -> bool:
        """Whether the last poll has begun anew; true once each time."""
        rewound, self._rewound = self._rewound, False
        return rewound

    def poll(self, timeout: float) -> list[Arrival]:
        """The next burst of records; see `Source`. Back after `_LOOK_AGAIN` at the latest, for somebody may seek."""
        position = self.position
        until = math.inf if position >= self.end else position
        if until < self._fed:
            self._restart()
            self._rewound = True
            self._fed = -math.inf
        arrivals = list(itertools.islice(self._due(until), _BURST))
        self.settled = self._next is None or self._next[0] > until
        if not arrivals:
            time.sleep(min(timeout, _LOOK_AGAIN))
        return arrivals

    def refresh(self) -> None:
        """Nothing changes in a run that has ended."""

    def close(self) -> None:
        """Nothing is held open between two looks."""

    def _now(self) -> float:
        if not self.playing:
            return self._anchor
        now = self._anchor + (time.monotonic() - self._anchor_at) * self.speed
        if now >= self.end:
            self.playing = False
            self._anchor = now = self.end
        return now

    def _place(self, position: float) -> None:
        self._anchor = min(max(position, self.start), self.end)
        self._anchor_at = time.monotonic()

    def _restart(self) -> None:
        self._recordings = [ProcessRecording(folder) for folder in self._folders]
        self._decoders = [Decoder() for _ in self._folders]
        each = [_timed(*pair) for pair in zip(self._recordings, self._decoders, strict=True)]
        self._records = heapq.merge(*each, key=itemgetter(0))
        self._next = next(self._records, None)

    def _due(self, until: float) -> Iterator[Arrival]:
        while self._next is not None and self._next[0] <= until:
            self._fed, arrival = self._next
            self._next = next(self._records, None)
            yield arrival


def _timed(recording: ProcessRecording, decoder: Decoder) -> Iterator[Timed]:
    """The records of a process, none earlier than the one before."""
    offset: float | None = None
    clock = 0.0
    while frames := recording.read():
        for arrival in decoder.arrivals(frames):
            record = arrival.record
            if offset is None and isinstance(record, Hello | Heartbeat):
                offset = record.wall - record.t
            if offset is not None and (t := time_of(record)) is not None:
                clock = max(clock, offset + t)
            yield clock, arrival


def time_of(record: Record) -> float | None:
    """When a record was written, by the monotonic clock of its writer; None where it does not say."""
    if isinstance(record, Steps):
        return float(_LAST.unpack(record.t.data[-_LAST.size :])[0]) if record.t.data else None
    return getattr(record, "t", None)


def _end_of(folder: Path) -> float:
    """About when the last record of a process was written; the last step may be a second later."""
    tail = read_tail(folder)
    beat, last = tail.heartbeat, tail.exit or tail.exception
    first = next(_timed(ProcessRecording(folder), Decoder()), None)
    if first is None:
        return 0.0
    hello = first[1].record
    times = [record.t for record in (beat, last) if record is not None]
    if isinstance(hello, Hello) and times:
        return hello.wall - hello.t + max(times)
    return max(first[0], tail.written or 0.0)
