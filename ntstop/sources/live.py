"""A run as it is watched: all its processes, those that appear later too, through sockets and recordings."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import zmq

from ntstop_probe.wire import PROTOCOL, Frame

from .base import Arrival, SourceError, SourceStatus, newer_protocol
from .feed import Feed
from .segments import is_process_folder
from .subscriber import Subscriber

_DISCOVER_EVERY = 1.0
"""Seconds between two looks for new processes."""
_NAP = 0.05
"""Seconds between two looks at the files, at least."""
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

    @property
    def status(self) -> SourceStatus:
        """How the reading goes, over all processes."""
        now = time.monotonic()
        feeds = list(self._feeds.values())
        counts = [feed.recording.counts for feed in feeds]
        newer = max(filter(None, (feed.decoder.newer for feed in feeds)), default=None)
        if newer is None and any(count.newer_frames for count in counts):
            newer = PROTOCOL + 1
        problem = next((feed.recording.problem for feed in feeds if feed.recording.problem), self._problem)
        return SourceStatus(
            corrupt=sum(count.corrupt for count in counts) + (self._subscriber.corrupt if self._subscriber else 0),
            skipped=sum(feed.decoder.skipped for feed in feeds) + self._strangers,
            gaps=sum(feed.sequencer.lost for feed in feeds),
            torn=sum(count.torn for count in counts),
            newer=newer,
            live=any(feed.live(now) for feed in feeds),
            complete=bool(feeds) and all(feed.complete for feed in feeds),
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

    def _collect(self, now: float, take: Callable[[Feed, float], list[_Taken]]) -> list[_Taken]:
        feeds = sorted(self._feeds.values(), key=lambda feed: feed.order)
        for feed in feeds:
            # One recording after the other, earlier attempts first, and each before anything live.
            while not feed.complete:
                if taken := take(feed, now):
                    return taken
        return [item for feed in feeds for item in take(feed, now)]

    def _discover(self, now: float) -> None:
        """Find new processes, and what the known ones announce anew."""
        if now < self._discover_at:
            return
        self._discover_at = now + (_DISCOVER_EVERY if self._feeds else 4 * _NAP)
        for folder in self._folders():
            if folder not in self._feeds:
                self._feeds[folder] = Feed(folder)
        for feed in self._feeds.values():
            if feed.refresh() and feed.info is not None:
                self._by_writer[feed.info.writer] = feed
            if self.live:
                self._connect(feed, now)

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

    def _connect(self, feed: Feed, now: float) -> None:
        endpoint = feed.info.endpoint if feed.info else None
        if feed.connected is not None and feed.connected != endpoint and self._subscriber is not None:
            self._subscriber.disconnect(feed.connected)
            feed.connected = None
        if endpoint is None or feed.connected == endpoint:
            return
        if self._subscriber is None:
            try:
                self._subscriber = Subscriber()
            except zmq.ZMQError as error:
                self._problem, self.live = f"no live socket: {error}", False
                return
        if self._subscriber.connect(endpoint):
            feed.connected = endpoint
