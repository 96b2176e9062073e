"""The recording: an append-only file of frames for each stream, cut into segments. The truth about a run.

Written without a buffer, so a process that is killed loses nothing that was written. When the disk is full or gone,
the write is taken back whole, the loss is counted, and a new segment is tried every few seconds: the job goes on.
"""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

from .descriptors import identity
from .disk import DEFAULT, Room, Spare
from .registry import segment_name
from .wire import STREAM_CORE, STREAM_LAYERS

SEGMENT_BYTES = 8 * 1024 * 1024
"""A segment is the unit in which a recording is deleted; small enough to be read in a blink."""
RETRY_SECONDS = 5.0

STREAM_NAMES = {STREAM_CORE: "core", STREAM_LAYERS: "layers"}


class _Segment:
    """One open file, to which only this process appends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self.frames = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o600)
        self._identity = identity(self._descriptor)

    def append(self, data: bytes) -> None:
        """Write all of `data` or, raising `OSError`, nothing of it."""
        if not self._is_ours():
            raise OSError(errno.EBADF, "the job has closed the file")
        if not os.fstat(self._descriptor).st_nlink:
            raise OSError(errno.ENOENT, "the file has been deleted")
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError:
            os.ftruncate(self._descriptor, self.size)
            raise
        self.size += len(data)
        self.frames += 1

    def close(self) -> None:
        if self._is_ours():
            os.close(self._descriptor)
        if self.size == 0:
            self.path.unlink(missing_ok=True)

    def _is_ours(self) -> bool:
        return identity(self._descriptor) == self._identity


class Recording:
    """The segments of one process folder, which must exist and belong to this process alone.

    No method raises `OSError`. `problem` is why nothing can be written at present, "" when all is well.
    """

    def __init__(self, folder: Path, segment_bytes: int = SEGMENT_BYTES, max_bytes: int = DEFAULT) -> None:
        self.folder = folder
        self._problems: dict[int, str] = {}
        self._room = Room(folder, max_bytes, segment_bytes)
        self._segments: dict[int, _Segment] = {}
        self._next_number = dict.fromkeys(STREAM_NAMES, 0)
        self._retry_at = 0.0
        self._spare = Spare(folder)
        self._core_only = False

    @property
    def problem(self) -> str:
        """Why a stream cannot be written at present: a disk may be too full for the one and not for the other."""
        return next(iter(self._problems.values()), "")

    @property
    def layers_stopped(self) -> bool:
        """Whether the disk that this recording may take is full of what is never removed."""
        return self._room.layers_stopped

    def wants_segment(self, stream: int) -> bool:
        """True when the next frame of `stream` should open a segment: it is the first, the last one is full, or broke.

        The caller then calls `open_segment` and writes a frame that says who writes here.
        """
        segment = self._segments.get(stream)
        if segment is not None:
            return segment.size >= self._room.segment_bytes
        if stream == STREAM_LAYERS and (self.layers_stopped or self._core_only):
            return False
        return time.monotonic() >= self._retry_at

    def open_segment(self, stream: int) -> None:
        """Start the next segment of `stream`, if the disk allows it."""
        self._close(stream)
        number = self._next_number[stream]
        try:
            self._room.make()
            if stream == STREAM_LAYERS and self.layers_stopped:
                return
            self._next_number[stream] += 1
            self._segments[stream] = _Segment(self.folder / segment_name(STREAM_NAMES[stream], number))
        except OSError as error:
            self._fail(stream, error)

    def write(self, stream: int, frame: bytes) -> bool:
        """Append one frame; False when it could not be recorded."""
        segment = self._segments.get(stream)
        if segment is None:
            # Left out on purpose, which is said once, is not lost.
            return stream == STREAM_LAYERS and (self.layers_stopped or self._core_only)
        try:
            segment.append(frame)
        except OSError as error:
            self._fail(stream, error)
            self._close(stream)
            return False
        self._problems.pop(stream, None)
        return True

    def last_words(self) -> None:
        """What comes now is the last: where the disk is full, the curves and the exit get what was kept for them."""
        self._core_only = bool(self._problems)
        self._retry_at = 0.0
        self._spare.free()

    def close(self) -> None:
        """Close every file."""
        self._spare.free()
        for stream in list(self._segments):
            self._close(stream)

    def _fail(self, stream: int, error: OSError) -> None:
        self._problems[stream] = f"{error.strerror or error} ({self.folder})"
        self._retry_at = time.monotonic() + RETRY_SECONDS

    def _close(self, stream: int) -> None:
        segment = self._segments.pop(stream, None)
        if segment is None:
            return
        number = self._next_number[stream] - 1
        self._room.closed(is_core=stream == STREAM_CORE, number=number, size=segment.size, frames=segment.frames)
        try:
            segment.close()
        except OSError as error:
            self._problems.setdefault(stream, f"{error.strerror or error} ({self.folder})")
