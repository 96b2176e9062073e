"""A run that has ended, played again: its records in the order and, at any speed, at the pace in which they came."""

from __future__ import annotations

import heapq
import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ntstop_probe.wire import Hello

from .base import Arrival, SourceStatus, removed_layers
from .playing import Player, Stand
from .runs import RunEntry
from .tail import read_tail

SPEEDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_FIRST_SPEED = 10
_BURST = 4096
"""Records of one poll at most."""
_LOOK_AGAIN = 0.05
"""Seconds between two looks at what is due."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a replay from which it can go on."""

    count: int
    """Records before it."""
    time: float
    """When the last of them was written, Unix seconds; minus infinity before the first."""
    stands: tuple[Stand, ...]
    """Of each process."""


class ReplaySource:
    """Plays the recordings of a run that has ended, up to `position`.

    `seek`, `toggle` and `change_speed` may be called from any thread, the rest from that of the reader. Times are Unix
    seconds by the clock of each writer at its start, so that a clock that was set in between does no harm. What was
    heard cannot be taken back: after a seek to an earlier time the records come again, from the `anchor` or the first
    record on, which `rewound` says once.
    """

    def __init__(self, entry: RunEntry) -> None:
        self._folders = [process.path for process in entry.processes]
        self._lock = threading.Lock()
        self._players: list[Player] = []
        self._heap: list[tuple[float, int]] = []
        """When the next record of each player was written, and which player that is; the earliest first."""
        self._first = Mark(0, -math.inf, tuple(Stand() for _ in self._folders))
        self.anchor: Callable[[float], Mark | None] = lambda _: None
        """Whoever listens says where to begin, to show a moment, by the marks whose state is kept; None: at the first
        record."""
        self._begin(self._first)
        self.start = (self._heap[0][0] if self._heap else 0.0) or entry.started or 0.0
        """When the run began."""
        self.end = max((_end_of(folder) for folder in self._folders), default=self.start)
        """When its last record was written."""
        self.end = max(self.end, self.start)
        self.speed = _FIRST_SPEED
        """Seconds of the run in one second."""
        self.playing = False
        self._anchor = self.end
        self._anchor_at = 0.0
        self.promised = math.inf
        """Up to when records were due when it last began anew; to show an earlier moment it begins anew again."""
        self._rewound = False
        self._is_new = True
        self.settled = False
        """Everything up to the position has been given out."""

    @property
    def position(self) -> float:
        """What is shown, Unix seconds of the run."""
        with self._lock:
            return self._now()

    @property
    def until(self) -> float:
        """Up to when records are due, Unix seconds; infinity at the end, which is known only to about a second."""
        position = self.position
        return math.inf if position >= self.end else position

    @property
    def status(self) -> SourceStatus:
        """How the reading goes; complete at the end of the run only."""
        players = self._players
        counts = [player.recording.counts for player in players]
        shortened = (player.decoder.layers_from for player in players if player.recording.removed)
        return SourceStatus(
            corrupt=sum(count.corrupt for count in counts),
            skipped=sum(player.decoder.skipped for player in players),
            gaps=sum(player.recording.gaps for player in players),
            torn=sum(count.torn for count in counts),
            complete=not self._heap,
            removed=next(map(removed_layers, shortened), ""),
            problem=next((player.recording.problem for player in players if player.recording.problem), ""),
        )

    @property
    def mark(self) -> Mark:
        """Where it stands now: after the records of the last poll."""
        return Mark(self.count, self._fed, tuple(player.stand for player in self._players))

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
        until = self.until
        if self._is_new or until < max(self._fed, self.promised):
            self._is_new, self.promised = False, until
            self._begin(self.anchor(until) or self._first)
            self._rewound = True
        arrivals = list(itertools.islice(self._due(until), _BURST))
        self.settled = not self._heap or self._heap[0][0] > until
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

    def _begin(self, mark: Mark) -> None:
        self._players = [Player(folder, stand) for folder, stand in zip(self._folders, mark.stands, strict=True)]
        self._heap = [(player.due, place) for place, player in enumerate(self._players) if player.due is not None]
        heapq.heapify(self._heap)
        self.count = mark.count
        """Records that have been given out, or that lie before the mark it began at."""
        self._fed = mark.time
        """When the last record that was given out was written."""

    def _due(self, until: float) -> Iterator[Arrival]:
        heap = self._heap
        while heap and heap[0][0] <= until:
            self._fed, place = heap[0]
            player = self._players[place]
            self.count += 1
            arrival = player.take()
            if player.due is None:
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, (player.due, place))
            yield arrival


def _end_of(folder: Path) -> float:
    """About when the last record of a process was written; the last step may be a second later."""
    tail = read_tail(folder)
    beat, last = tail.heartbeat, tail.exit or tail.exception
    first = Player(folder)
    if first.due is None:
        return 0.0
    begun, hello = first.due, first.take().record
    times = [record.t for record in (beat, last) if record is not None]
    if isinstance(hello, Hello) and times:
        return hello.wall - hello.t + max(times)
    return max(begun, tail.written or 0.0)
