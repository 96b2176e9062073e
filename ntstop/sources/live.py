"""A run as it is watched: all its processes, those that appear later too, through sockets and recordings."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import zmq

from ntstop_probe.wire import PROTOCOL, Frame

from .base import Arrival, SourceError, SourceStatus, newer_protocol
from .feed import Feed
from .openfiles import room_for
from .segments import is_process_folder
from .subscriber import Subscriber

_DISCOVER_EVERY = 1.0
"""Seconds between two looks for new processes."""
_NAP = 0.05
"""Seconds between two looks at the files, at least."""
_MANY = 32
"""From as many processes on, what is looked at in all of them is looked at less often."""
_COUNT_EVERY = 0.25
"""Seconds between two counts of what many processes lack."""
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
        self._touched: set[Feed] = set()
        """Those that may have something to give."""
        self._sweep_at = 0.0
        self._room = 0
        """Sockets that may still be opened."""
        self._counted: tuple[float, SourceStatus] | None = None

    @property
    def status(self) -> SourceStatus:
        """How the reading goes, over all processes; of many, up to a quarter of a second old."""
        now = time.monotonic()
        if self._counted is not None and now < self._counted[0] and len(self._feeds) >= _MANY:
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
            now = time.monotonic()
            rest = min((feed.rest(now) for feed in self._feeds.values()), default=_NAP)
            wait = min(left, max(rest, _NAP))

    def refresh(self) -> None:
        """Look at all recordings with the next `poll`, even while their sockets speak."""
        for feed in self._feeds.values():
            feed.look_now = True
        self._sweep_at = 0.0

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
        now = time.monotonic()
        for frame in self._subscriber.receive(wait):
            self._hear(frame, now)

    def _hear(self, frame: Frame, now: float) -> None:
        feed = self._by_writer.get(frame.writer)
        if feed is None:
            self._strangers += 1
        else:
            feed.hear(frame, now)
            self._touched.add(feed)

    def _collect(self, now: float, take: Callable[[Feed, float], list[_Taken]]) -> list[_Taken]:
        if not self._complete and (items := self._catch_up(now, take)):
            return items
        if now >= self._sweep_at or len(self._ordered) < _MANY:
            self._sweep_at = now + _NAP
            due = [feed for feed in self._ordered if feed in self._touched or feed.rest(now) <= 0]
        else:
            due = sorted(self._touched, key=_order)
        items = [item for feed in due for item in take(feed, now)]
        self._touched = {feed for feed in due if feed.rest(now) <= 0}
        return items

    def _catch_up(self, now: float, take: Callable[[Feed, float], list[_Taken]]) -> list[_Taken]:
        """One recording after the other, earlier attempts first, and each before anything live; a burst at a time."""
        items: list[_Taken] = []
        for feed in self._ordered:
            while not feed.complete:
                items += take(feed, now)
                if items and time.monotonic() - now > _NAP:
                    return items
        self._complete = bool(self._ordered)
        return items

    def _discover(self, now: float) -> None:
        """Find new processes, and what the known ones announce anew."""
        if now < self._discover_at:
            return
        for folder in self._folders():
            if folder not in self._feeds:
                self._feeds[folder] = Feed(folder)
        known = [feed for feed in self._feeds.values() if feed.refresh() and feed.info is not None]
        for feed in known:
            if feed.info is not None:
                self._by_writer[feed.info.writer] = feed
        if known or len(self._ordered) != len(self._feeds):
            self._ordered = sorted(self._feeds.values(), key=_order)
            self._complete = bool(self._ordered) and all(feed.complete for feed in self._ordered)
        if self.live:
            self._connect_all()
        took = time.monotonic() - now
        every = _DISCOVER_EVERY if self._feeds else 4 * _NAP
        self._discover_at = now + max(every, took / _DISCOVER_SHARE if len(self._feeds) >= _MANY else 0.0)

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


def _order(feed: Feed) -> tuple[int, float, str]:
    return feed.order
