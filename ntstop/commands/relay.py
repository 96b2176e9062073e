"""`ntstop relay`: a run as a stream of frames on standard output, for `ntstop -` at the other end of an ssh."""

from __future__ import annotations

import os
import select
import sys
import time

import click

from ntstop.sources import runs
from ntstop.sources.base import SourceError
from ntstop.sources.live import RunSource
from ntstop.sources.stdio import ASIDE, GONE, REMOVED
from ntstop_probe import registry
from ntstop_probe.wire import STREAM_CORE, Event, encode_batch, encode_frame

_POLL = 0.1
"""Seconds to wait for frames at most, before looking whether anybody reads."""
_EVIDENCE_EVERY = 1.0
_KEEP_ALIVE = 1.0
"""Seconds without a frame until one without records is written."""
_GIVE_UP = 600.0
"""Seconds of silence after which a run whose processes cannot be checked from here is taken for ended."""


def relay(target: str | None) -> int:
    """Write the recording, then what comes, of all processes of a run (None: the newest live one); ends with the run.

    Where the reader is slow this waits for it, and fills in from the recording what the socket had to drop: the job
    never waits. Raises `BrokenPipeError` when the reader has gone.
    """
    try:
        entry = runs.resolve(target) if target is not None else runs.newest_live()
        if entry is None:
            raise click.ClickException("no run is live; `ntstop ls` lists those that have ended")
        descriptor = sys.stdout.fileno()
        if os.isatty(descriptor):
            raise click.ClickException(f"this writes bytes for a program: ntstop relay {entry.id} | ntstop -")
        Relay(RunSource(entry.path), descriptor).run()
    except SourceError as error:
        raise click.ClickException(str(error)) from error
    return 0


class Relay:
    """Passes the frames of `source` on to `descriptor`."""

    def __init__(self, source: RunSource, descriptor: int) -> None:
        self._source = source
        self._descriptor = descriptor
        self._reader = select.poll()
        self._reader.register(descriptor, 0)
        self._last: dict[int, int] = {}
        """The last sequence number of each writer."""
        self._mourned: set[int] = set()
        self._removed: dict[int, int] = {}
        """Frames that each writer has removed, as far as that was told."""
        self._complete = False
        self._written = 0.0
        self._ended = False
        self._look_at = 0.0

    def run(self) -> None:
        """Until the run has ended and all of it is sent. Raises `SourceError`, and `BrokenPipeError`."""
        try:
            while not self._turn():
                if self._reader.poll(0):
                    # Nobody reads: seen also while there is nothing to write.
                    raise BrokenPipeError
        finally:
            self._source.close()

    def _turn(self) -> bool:
        # Before the reading, so that what was written until the end is read.
        entry = self._evidence()
        frames = self._source.frames(0.0 if self._ended and self._complete else _POLL)
        for frame in frames:
            self._last[frame.writer] = frame.sequence
            self._write(encode_frame(frame.stream, frame.writer, frame.sequence, frame.payload))
        complete = not frames and self._source.status.complete
        if complete and (not self._complete or time.monotonic() - self._written > _KEEP_ALIVE):
            self._complete = True
            self._welcome()
        if complete and entry is not None:
            self._tell_removed(entry)
            self._mourn(entry)
        return complete and self._ended

    def _evidence(self) -> runs.RunEntry | None:
        """The run as it is now, once a second."""
        if time.monotonic() < self._look_at:
            return None
        self._look_at = time.monotonic() + _EVIDENCE_EVERY
        entry = runs.read_run(self._source.folder)
        self._ended = _has_ended(entry)
        if self._ended:
            self._source.refresh()
            self._look_at = 0.0
        return entry

    def _welcome(self) -> None:
        """Say that the past is told, as the live socket does: by a frame without records. Said again while there is
        nothing else to say, for an ssh sees that its reader has gone only when it writes."""
        for writer, sequence in (self._last or {0: 0}).items():
            self._write(encode_frame(STREAM_CORE, writer, sequence, encode_batch([])))

    def _tell_removed(self, entry: runs.RunEntry) -> None:
        """Tell of layers that writers have removed to keep to their share of the disk: those are no gap."""
        for process in entry.processes:
            info = process.info
            if info is None or info.writer not in self._last:
                continue
            frames = registry.read_tombstone(process.path).frames
            if frames > self._removed.get(info.writer, 0):
                self._removed[info.writer] = frames
                payload = encode_batch([Event(0.0, REMOVED, data={"frames": frames})])
                self._write(encode_frame(STREAM_CORE, info.writer, ASIDE, payload))

    def _mourn(self, entry: runs.RunEntry) -> None:
        """Tell of processes that died without a word: only on their own host can that be known."""
        for process in entry.processes:
            info = process.info
            if info is None or info.writer not in self._last or info.writer in self._mourned:
                continue
            if process.state == "died" or (process.state == "failed" and process.exit_code is None):
                self._mourned.add(info.writer)
                self._last[info.writer] += 1
                payload = encode_batch([Event(0.0, GONE, process.why)])
                self._write(encode_frame(STREAM_CORE, info.writer, self._last[info.writer], payload))

    def _write(self, data: bytes) -> None:
        self._written = time.monotonic()
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._descriptor, view) :]
            except BlockingIOError:
                # An ssh may have made the pipe that it shares with us non-blocking.
                select.select([], [self._descriptor], [])


def _has_ended(entry: runs.RunEntry) -> bool:
    if entry.active or not entry.processes:
        return False
    return entry.state != "stale" or entry.last_activity is None or time.time() - entry.last_activity > _GIVE_UP
