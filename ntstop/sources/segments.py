"""Reading a recording while it is written: the segments of one stream, and the two streams of a process merged."""

from __future__ import annotations

import os
import re
import time
from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path

from ntstop_probe import registry
from ntstop_probe.wire import Frame, FrameReader

from .base import SourceError

CHUNK = 1024 * 1024
_BURST_BYTES = CHUNK
_SETTLES = 1.0
"""Seconds after which two changes of a folder have two dates: those of some file systems are coarse."""
_SEGMENT = re.compile(r"(core|layers)-(\d+)\.nts")
_STREAMS = ("core", "layers")


@dataclass(frozen=True, slots=True)
class Place:
    """Where the reading of a stream stands: what lies before this byte of this segment has been given out."""

    number: int
    offset: int
    past: ReadCounts
    """What was not read up to there."""


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Where the reading of a process stands; see `ProcessRecording.bookmark`."""

    places: tuple[Place, ...]
    next: int | None
    missing: int
    before_first: int
    removed: tuple[int, int] | None


@dataclass(slots=True)
class ReadCounts:
    """What was not read, since the start."""

    corrupt: int = 0
    newer_frames: int = 0
    torn: int = 0
    pruned: int = 0
    """Times that a segment had gone before it was read."""


class Listing:
    """Whether a folder may hold other names than when it was last listed: by its date, which is quicker to ask for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._date: int | None = None
        self._since = 0.0
        self._is_known = False
        """It has been listed since its date was too old to be that of a change to come."""

    def may_differ(self) -> bool:
        """False only where a listing would show what the one after the last call of this showed."""
        try:
            date = os.stat(self._folder).st_mtime_ns
        except OSError:
            self.forget()
            return True
        now = time.monotonic()
        if date != self._date:
            self._date, self._since, self._is_known = date, now, False
        elif self._is_known:
            return False
        self._is_known = now - self._since > _SETTLES
        return True

    def forget(self) -> None:
        """What was listed has not all been looked at."""
        self._date = None


class StreamReader:
    """The frames of one stream ("core" or "layers") of a process folder, segment by segment, as they are written."""

    def __init__(self, folder: Path, stream: str, place: Place | None = None, chunk: int | None = None) -> None:
        """`place`: where to go on, what an earlier reader called its `here` or its `before`. `chunk`: bytes that are
        read at a time, a MiB where it is not said."""
        place = place or Place(-1, 0, ReadCounts())
        self._folder = folder
        self._stream = stream
        self._number = place.number
        self._offset = place.offset
        self._reader = FrameReader()
        self._past = replace(place.past)
        self._bytes = chunk or CHUNK
        self._listing = Listing(folder)
        self.problem = ""
        """Why the current segment cannot be read, "" when it can."""
        self.before = self.here
        """Where the frames begin that were given out last; at damage, a few before them."""

    @property
    def here(self) -> Place:
        """Where the next frame begins, or what may become one."""
        counts = self.counts
        return Place(self._number, self._offset - counts.torn, replace(counts, torn=0))

    @property
    def counts(self) -> ReadCounts:
        """What was not read, over all segments."""
        past, reader = self._past, self._reader
        return ReadCounts(past.corrupt + reader.corrupt, past.newer_frames + reader.newer, reader.pending, past.pruned)

    def read(self) -> list[Frame]:
        """The next frames, about a chunk of them; empty at the end of what is written so far.

        Raises `SourceError` where reading is not permitted.
        """
        while True:
            if frames := self._read_here():
                return frames
            if not self._listing.may_differ():
                return []
            later = [number for number in segments(self._folder, self._stream) if number > self._number]
            if not later:
                return []
            self._listing.forget()
            # The writer moved on, so this segment is final; its last bytes may have come since we looked.
            if frames := self._read_here():
                return frames
            self.before = self.here
            frames = self._reader.finish()
            self._past.pruned += min(later) > self._number + 1
            self._begin(min(later))
            if frames:
                return frames

    def _read_here(self) -> list[Frame]:
        while self._number >= 0:
            self.before = self.here
            if not (data := self._chunk()):
                break
            if frames := self._reader.feed(data):
                return frames
        return []

    def _chunk(self) -> bytes:
        path = self._folder / registry.segment_name(self._stream, self._number)
        try:
            descriptor = registry.open_file(path)
        except FileNotFoundError:
            self._past.pruned += 1
            return b""
        except PermissionError as error:
            raise _forbidden(path) from error
        except OSError as error:
            self.problem = f"{path}: {error.strerror}"
            return b""
        try:
            data = os.pread(descriptor, self._bytes, self._offset)
        except OSError as error:
            self.problem = f"{path}: {error.strerror}"
            return b""
        finally:
            os.close(descriptor)
        self.problem = ""
        self._offset += len(data)
        return data

    def _begin(self, number: int) -> None:
        counts = self.counts
        if self._number >= 0 and counts.torn:
            counts.corrupt += 1
        self._past, self._reader = counts, FrameReader()
        self._number, self._offset = number, 0


class ProcessRecording:
    """Both streams of a process folder in the order in which they were written, live or long finished."""

    def __init__(self, folder: Path, bookmark: Bookmark | None = None, chunk: int | None = None) -> None:
        """`bookmark`: where to go on, instead of at the first frame. `chunk`: bytes that are read of a file at a time;
        each `read` gives at most about four times as many."""
        mark = bookmark or Bookmark((Place(-1, 0, ReadCounts()),) * len(_STREAMS), None, 0, 0, None)
        self.folder = folder
        self._streams = [StreamReader(folder, *each, chunk) for each in zip(_STREAMS, mark.places, strict=True)]
        self._most = 4 * chunk if chunk else _BURST_BYTES
        self._queues: list[deque[Frame]] = [deque() for _ in _STREAMS]
        self._next = mark.next
        self._given = mark.next or 0
        """Frames with a lower number have been given out before."""
        self._missing = mark.missing
        self._before_first = mark.before_first
        """Numbers before that of the first frame that was read: what is missing there nobody has counted."""
        self._removed = mark.removed
        """Frames that the tombstone speaks of, and segments that had gone when it was read."""
        self.at_end = False
        """The last `read` has given all that there was."""

    @property
    def bookmark(self) -> Bookmark:
        """Where the reading stands: a reader that is begun with it gives what this one would have given from now on."""
        pairs = zip(self._streams, self._queues, strict=True)
        places = tuple(stream.before if queue else stream.here for stream, queue in pairs)
        return Bookmark(places, self._next, self._missing, self._before_first, self._removed)

    @property
    def counts(self) -> ReadCounts:
        """What was not read, over both streams."""
        each = [stream.counts for stream in self._streams]
        return ReadCounts(
            sum(counts.corrupt for counts in each),
            sum(counts.newer_frames for counts in each),
            sum(counts.torn for counts in each),
            sum(counts.pruned for counts in each),
        )

    @property
    def gaps(self) -> int:
        """Frames missing between those that were read, but for those that were removed to keep to `NTSTOP_MAX_DISK`."""
        return max(0, self._missing - self.removed)

    @property
    def removed(self) -> int:
        """Frames of layers between those that were read which had been removed before, by the writer's own word."""
        return max(0, self._removed[0] - self._before_first) if self._removed else 0

    @property
    def problem(self) -> str:
        """Why a segment cannot be read now, "" when all can."""
        return next((stream.problem for stream in self._streams if stream.problem), "")

    def read(self) -> list[Frame]:
        """The next frames, a MB or two at most; empty at the end of what is written so far. Raises `SourceError`."""
        self._look_for_tombstone()
        frames: list[Frame] = []
        size = 0
        self.at_end = False
        while size < self._most:
            queue = self._next_queue()
            # Only on a gap is the stream that seems to be at its end looked at again: a frame was written before
            # those with a higher number, so once such a one was read it must be there.
            if (queue is None or queue[0].sequence != self._next) and self._fill():
                continue
            if queue is None:
                self.at_end = True
                break
            frame = queue.popleft()
            self._count(frame.sequence)
            frames.append(frame)
            size += len(frame.payload)
        return frames

    def _look_for_tombstone(self) -> None:
        """Read it at first, and again when something has gone: what is removed after we have read it is no loss."""
        gone = self._streams[1].counts.pruned
        if self._removed is None or self._removed[1] != gone:
            self._removed = registry.read_tombstone(self.folder).frames, gone

    def _next_queue(self) -> deque[Frame] | None:
        return min((queue for queue in self._queues if queue), key=lambda queue: queue[0].sequence, default=None)

    def _fill(self) -> bool:
        filled = False
        for stream, queue in zip(self._streams, self._queues, strict=True):
            if not queue and (frames := stream.read()):
                queue.extend(frame for frame in frames if frame.sequence >= self._given)
                filled = True
        return filled

    def _count(self, sequence: int) -> None:
        if self._next is None:
            self._next = sequence
            self._before_first = max(0, sequence - 1)
        self._missing = max(0, self._missing + (sequence - self._next if sequence >= self._next else -1))
        self._next = max(self._next, sequence + 1)


def segments(folder: Path, stream: str) -> list[int]:
    """Numbers of the segments of a stream, rising; none when the folder is not there. Raises `SourceError`."""
    try:
        names = os.listdir(folder)
    except PermissionError as error:
        raise _forbidden(folder) from error
    except OSError:
        return []
    found = (_SEGMENT.fullmatch(name) for name in names)
    return sorted(int(match[2]) for match in found if match and match[1] == stream)


def is_process_folder(folder: Path) -> bool:
    """Whether a folder is that of one process, rather than of a run. Raises `SourceError`."""
    return os.path.exists(folder / registry.PROCESS_FILE) or any(segments(folder, name) for name in _STREAMS)


def _forbidden(path: Path) -> SourceError:
    return SourceError(f"{path}: permission denied (only its owner may read a run)")
