"""A run as it is watched: all its processes, those that appear later too, through sockets and recordings."""

from __future__ import annotations

import heapq
import os
import time
from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

import zmq

from ntstop_probe.wire import PROTOCOL, Frame

from .base import Arrival, SourceError, SourceStatus, newer_protocol
from .feed import MANY, Feed
from .openfiles import room_for
from .segments import is_process_folder
from .subscriber import BURST, Subscriber

_DISCOVER_EVERY = 1.0
"""Seconds between two looks for new processes."""
_NAP = 0.05
"""Seconds between two looks at the files, at least."""
_COUNT_EVERY = 1.0
"""Seconds between two counts of what many processes lack."""
_SWEEP_EVERY = 0.25
"""Seconds between two looks for those of many processes that have fallen silent."""
_SLICE = 0.01
"""Seconds that the recordings of many processes are read at a time. In between the socket is emptied: what does not fit
into its queues would have to be read from a recording, too."""
_BITE = 0.005
"""Seconds that a few recordings are read at a time: what is read is applied while it is in the caches, and a long
recording never lies decoded in memory."""
_DISCOVER_SHARE = 0.02
"""Share of the time that looking for processes may take, when they are many."""
_Taken = TypeVar("_Taken", Arrival, Frame)


class RunSource:
    """Reads a run folder, or a single process folder, live where it can. The folder may come into being later.

    The recording is read at once, without waiting for the socket: whatever was published before the subscription
    took hold shows up as a gap in the sequence, and is read from the recording. While a socket is silent, the
    recording is followed instead. With `live=False` no socket is opened at all. One thread must make all calls.
    """

    def __init__(self, folder: Path, *, live: bool = True) -> None:
        self.folder = folder
        self._feeds: dict[Path, Feed] = {}
        self._by_writer: dict[int, Feed] = {}
        self.live = live
        """Whether to listen to sockets."""
        self._subscriber: Subscriber | None = None
        self._discover_at = 0.0
        self._strangers = 0
        self._problem = ""
        self._ordered: list[Feed] = []
        self._complete = False
        self._behind: list[tuple[int, bool, float, int, Feed]] = []
        """Those whose recording is not read to its end, a heap: the first is the next to be read."""
        self._turns = 0
        self._touched: dict[Feed, None] = {}
        """Those that may have something to give, in the order in which they were heard."""
        self._gather_until = 0.0
        """When the next frames of many processes are taken in: one look at many costs less than many at one."""
        self._is_empty = True
        """Nothing was left in the socket when it was last listened to."""
        self._sweep_at = 0.0
        self._room = 0
        """Sockets that may still be opened."""
        self._counted: tuple[float, SourceStatus] | None = None

    @property
    def status(self) -> SourceStatus:
        """How the reading goes, over all processes; of many, up to a quarter of a second old."""
        now = time.monotonic()
        if self._counted is not None and now < self._counted[0] and len(self._feeds) >= MANY:
            return replace(self._counted[1], complete=self._complete)
        status = self._count(now)
        self._counted = now + _COUNT_EVERY, status
        return status

    def _count(self, now: float) -> SourceStatus:
        feeds = list(self._feeds.values())
        counts = [feed.recording.counts for feed in feeds]
        newer = max(filter(None, (feed.decoder.newer for feed in feeds)), default=None)
        if newer is None and any(count.newer_frames for count in counts):
            newer = PROTOCOL + 1
        problem = next((feed.recording.problem for feed in feeds if feed.recording.problem), self._problem)
        return SourceStatus(
            corrupt=sum(count.corrupt for count in counts) + (self._subscriber.corrupt if self._subscriber else 0),
            skipped=sum(feed.decoder.skipped for feed in feeds) + self._strangers,
            gaps=sum(feed.lost for feed in feeds),
            torn=sum(count.torn for count in counts),
            newer=newer,
            live=any(feed.live(now) for feed in feeds),
            complete=self._complete,
            removed=next((feed.removed for feed in feeds if feed.recording.removed), ""),
            problem=newer_protocol(newer) if newer is not None else problem,
        )

    def poll(self, timeout: float) -> list[Arrival]:
        """The next burst of records; see `Source`."""
        return self._poll(timeout, Feed.poll)

    def frames(self, timeout: float) -> list[Frame]:
        """The next burst as frames, not decoded, in the order of each writer; for whoever passes them on.

        Use either this or `poll`, as it takes frames out of the same queue. Raises `SourceError`.
        """
        return self._poll(timeout, Feed.frames)

    def _poll(self, timeout: float, take: Callable[[Feed, float], list[_Taken]]) -> list[_Taken]:
        deadline = time.monotonic() + timeout
        wait = 0.0
        while True:
            self._discover(time.monotonic())
            self._listen(wait)
            taken = self._collect(time.monotonic(), take)
            left = deadline - time.monotonic()
            if taken or left <= 0:
                return taken
            wait = min(left, self._rest(time.monotonic()))

    def _rest(self, now: float) -> float:
        """Seconds in which nothing can be found but what a socket says."""
        if len(self._feeds) >= MANY:
            return max(self._sweep_at - now, _NAP) if not self._touched else 0.0
        return max(min((feed.rest(now) for feed in self._feeds.values()), default=_NAP), _NAP)

    def refresh(self) -> None:
        """Look at all recordings with the next `poll`, even while their sockets speak."""
        for feed in self._feeds.values():
            feed.look_now = True
        self._sweep_at = 0.0

    @property
    def refreshed(self) -> bool:
        """Whether all that was on disk at the last `refresh` has been given out."""
        return self._complete and not any(feed.look_now for feed in self._feeds.values())

    def close(self) -> None:
        """Close the socket."""
        if self._subscriber is not None:
            self._subscriber.close()
            self._subscriber = None
        self.live = False

    def _listen(self, wait: float) -> None:
        if self._subscriber is None:
            if wait > 0:
                time.sleep(wait)
            return
        many = len(self._feeds) >= MANY
        if many and self._complete and self._is_empty and (pause := self._gather_until - time.monotonic()) > 0:
            time.sleep(pause)
        frames = self._subscriber.receive(wait)
        now = time.monotonic()
        self._gather_until, self._is_empty = now + _NAP, len(frames) < BURST
        for frame in frames:
            self._hear(frame, now)

    def _hear(self, frame: Frame, now: float) -> None:
        feed = self._by_writer.get(frame.writer)
        if feed is None:
            self._strangers += 1
        else:
            feed.hear(frame, now)
            self._touched[feed] = None

    def _collect(self, now: float, take: Callable[[Feed, float], list[_Taken]]) -> list[_Taken]:
        """What there is of those that are read to their end, then of those that are not, a burst of these."""
        due = self._touched
        if now >= self._sweep_at or len(self._ordered) < MANY:
            self._sweep_at = now + _SWEEP_EVERY
            due = {feed: None for feed in self._ordered if feed in due or feed.rest(now) <= 0}
        lacking, items = list[Feed](), list[_Taken]()
        for feed in due:
            if not feed.complete:
                continue
            if len(self._ordered) >= MANY and feed.is_due(now) and not feed.look_now:
                lacking.append(feed)
            else:
                items += take(feed, now)
        items += self._look_at(lacking, now, take)
        self._touched = {feed: None for feed in due if feed.complete and feed.rest(now) <= 0}
        if not self._complete:
            items += self._catch_up(now, take)
        return items

    def _look_at(self, lacking: list[Feed], now: float, take: Callable[[Feed, float], list[_Taken]]) -> list[_Taken]:
        """Look at recordings of many processes: some of them, those that wait the longest, and none while the socket
        has more."""
        items: list[_Taken] = []
        for feed in sorted(lacking, key=Feed.due_since):
            if not self._is_empty or time.monotonic() - now > _SLICE:
                break
            items += take(feed, now)
        return items

    def _catch_up(self, now: float, take: Callable[[Feed, float], list[_Taken]]) -> list[_Taken]:
        """Earlier attempts first, of each those that lead, and then the others side by side: what one rank has to be
        compared with, the others have about then."""
        items: list[_Taken] = []
        until = now + (_SLICE if len(self._ordered) >= MANY else _BITE)
        while self._behind:
            feed = self._behind[0][-1]
            items += take(feed, now)
            if feed.complete:
                heapq.heappop(self._behind)
            else:
                heapq.heapreplace(self._behind, self._place(feed))
            if items and time.monotonic() > until:
                return items
        self._complete = bool(self._ordered)
        return items

    def _place(self, feed: Feed) -> tuple[int, bool, float, int, Feed]:
        self._turns += 1
        return feed.order[0], not feed.leads, feed.order[2] if feed.leads else feed.reached, self._turns, feed

    def _discover(self, now: float) -> None:
        """Find new processes, and what the known ones announce anew."""
        if now < self._discover_at:
            return
        folders = self._folders()
        for folder in folders:
            if folder not in self._feeds:
                self._feeds[folder] = Feed(folder, among=len(folders))
        known = [feed for feed in self._feeds.values() if feed.refresh() and feed.info is not None]
        for feed in known:
            if feed.info is not None:
                self._by_writer[feed.info.writer] = feed
        if known or len(self._ordered) != len(self._feeds):
            self._ordered = sorted(self._feeds.values(), key=attrgetter("order"))
            self._behind = [self._place(feed) for feed in self._ordered if not feed.complete]
            heapq.heapify(self._behind)
            self._complete = bool(self._ordered) and not self._behind
        if self.live:
            self._connect_all()
        took = time.monotonic() - now
        every = _DISCOVER_EVERY if self._feeds else 4 * _NAP
        self._discover_at = now + max(every, took / _DISCOVER_SHARE if len(self._feeds) >= MANY else 0.0)

    def _connect_all(self) -> None:
        wanted = [feed for feed in self._ordered if feed.info and feed.info.endpoint != feed.connected]
        if not wanted:
            return
        self._room = room_for(len(wanted))
        for feed in wanted:
            self._connect(feed)
        unheard = sum(1 for feed in wanted if feed.connected is None and feed.info and feed.info.endpoint)
        if unheard and not self._room:
            self._problem = (
                f"{unheard:,} of {len(self._ordered):,} processes are read from their recordings only, a second late: "
                "too many open files (raise the hard limit, ulimit -Hn)"
            )

    def _folders(self) -> list[Path]:
        try:
            if is_process_folder(self.folder):
                return [self.folder]
            with os.scandir(self.folder) as entries:
                found = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
        except PermissionError as error:
            raise SourceError(f"{self.folder}: permission denied (only its owner may read a run)") from error
        except OSError:
            return []
        return sorted(folder for folder in found if folder in self._feeds or is_process_folder(folder))

    def _connect(self, feed: Feed) -> None:
        endpoint = feed.info.endpoint if feed.info else None
        if feed.connected is not None and feed.connected != endpoint and self._subscriber is not None:
            self._subscriber.disconnect(feed.connected)
            feed.connected = None
        if endpoint is None or feed.connected == endpoint or not self._room:
            return
        if self._subscriber is None:
            try:
                self._subscriber = Subscriber()
            except zmq.ZMQError as error:
                self._problem, self.live = f"no live socket: {error}", False
                return
        self._subscriber.share(len(self._ordered))
        if self._subscriber.connect(endpoint):
            feed.connected = endpoint
            self._room -= 1
