"""The recording of one process, read to its end and then followed."""

from __future__ import annotations

import time
from pathlib import Path

from ntstop_probe.wire import PROTOCOL

from .base import Arrival, SourceStatus, newer_protocol, removed_layers
from .decoding import Decoder
from .segments import ProcessRecording

_LOOK_AGAIN = 0.05
"""Seconds between two looks at a file that does not grow."""


class RecordingSource:
    """Reads a process folder. A folder that does not exist (yet) is waited for; `poll` raises `SourceError` when it
    may not be read."""

    def __init__(self, folder: Path) -> None:
        self._recording = ProcessRecording(folder)
        self._decoder = Decoder()
        self._complete = False

    @property
    def status(self) -> SourceStatus:
        """How the reading goes."""
        counts = self._recording.counts
        newer = self._decoder.newer
        if newer is None and counts.newer_frames:
            newer = PROTOCOL + 1
        return SourceStatus(
            corrupt=counts.corrupt,
            skipped=self._decoder.skipped,
            gaps=self._recording.gaps,
            torn=counts.torn,
            newer=newer,
            complete=self._complete,
            removed=removed_layers(self._decoder.layers_from) if self._recording.removed else "",
            problem=newer_protocol(newer) if newer is not None else self._recording.problem,
        )

    def poll(self, timeout: float) -> list[Arrival]:
        """The next burst of records; see `Source`."""
        deadline = time.monotonic() + timeout
        while True:
            frames = self._recording.read()
            if arrivals := self._decoder.arrivals(frames):
                return arrivals
            if frames:
                continue
            self._complete = True
            left = deadline - time.monotonic()
            if left <= 0:
                return []
            time.sleep(min(left, _LOOK_AGAIN))

    def refresh(self) -> None:
        """Every poll looks."""

    def close(self) -> None:
        """Nothing is held open between two looks."""
