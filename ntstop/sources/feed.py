"""One process as it is watched: its recording to the end, then what its socket says, then its recording again."""

from __future__ import annotations

from pathlib import Path

from ntstop_probe import registry
from ntstop_probe.registry import ProcessInfo
from ntstop_probe.wire import PROTOCOL, Frame

from .base import Arrival, removed_layers
from .decoding import Decoder
from .segments import ProcessRecording
from .sequencer import MOST_HELD, Sequencer

SILENCE = 2.5
"""Seconds without a frame from the socket until the recording is followed: a heartbeat comes every second."""
_HELD_AT_FIRST = 64
"""Frames that are kept while the recording is still read: it has them too, but for those a full disk has refused."""
_LOOK_FIRST = 0.05
_LOOK_LAST = 1.0
"""Seconds between two looks at the recording, doubling while nothing is found."""


class Feed:
    """Frames of one process in order. Knows no socket: whoever has one calls `hear`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.info: ProcessInfo | None = None
        self.recording = ProcessRecording(folder)
        self.sequencer = Sequencer()
        self.decoder = Decoder()
        self.complete = False
        """The recording has been read to its end once."""
        self.connected: str | None = None
        """Endpoint that is listened to."""
        self.look_now = False
        """Look at the recording with the next `poll`."""
        self._heard = float("-inf")
        self._look_at = 0.0
        self._look_every = _LOOK_FIRST
        self._info_stamp: tuple[int, int] | None = None

    @property
    def order(self) -> tuple[int, float, str]:
        """Earlier attempts come first, so that their curves do too."""
        if self.info is None:
            return (0, 0.0, self.folder.name)
        return (self.info.attempt, self.info.wall, self.folder.name)

    def refresh(self) -> bool:
        """Read the announcement again if it has changed; True when it has."""
        try:
            status = (self.folder / registry.PROCESS_FILE).stat()
            stamp = (status.st_mtime_ns, status.st_ino)
            if stamp == self._info_stamp:
                return False
            self.info = registry.read_process_info(self.folder)
        except (OSError, ValueError):
            return False
        self._info_stamp = stamp
        if self.info.protocol > PROTOCOL:
            self.decoder.newer = self.info.protocol
        return True

    @property
    def lost(self) -> int:
        """Frames that are nowhere, and that the writer has not removed itself."""
        return max(0, self.sequencer.lost - self.recording.removed)

    @property
    def removed(self) -> str:
        """What of the layers the writer has removed, one line; "" when nothing."""
        return removed_layers(self.decoder.layers_from) if self.recording.removed else ""

    def live(self, now: float) -> bool:
        """Whether the socket has spoken lately."""
        return now - self._heard < SILENCE

    def rest(self, now: float) -> float:
        """Seconds until `poll` may find something that nobody calls `hear` for."""
        if self.look_now or not self.complete:
            return 0.0
        if self.live(now) and not self.sequencer.gap:
            return SILENCE - (now - self._heard)
        return max(0.0, self._look_at - now)

    def hear(self, frame: Frame, now: float) -> None:
        """Take in a frame from the socket; a welcome (a frame without records) is only a sign of life."""
        self._heard = now
        if len(frame.payload) > 1:
            self.sequencer.put(frame, MOST_HELD if self.complete else _HELD_AT_FIRST)

    def poll(self, now: float) -> list[Arrival]:
        """The records whose turn it is, about 4 MB of them at most. Raises `SourceError`."""
        return self.decoder.arrivals(self.frames(now))

    def frames(self, now: float) -> list[Frame]:
        """The frames whose turn it is, about 4 MB of them at most. Raises `SourceError`."""
        if not self.complete:
            frames = self.sequencer.through(self.recording.read())
            self.complete = not frames
            if frames:
                return frames
        frames = self.sequencer.take(now)
        if self.look_now or ((self.sequencer.gap or not self.live(now)) and now >= self._look_at):
            frames += self._look(now)
        return frames

    def _look(self, now: float) -> list[Frame]:
        """See whether the recording has what the socket did not bring."""
        recorded = self.recording.read()
        self.look_now = False
        if recorded or self.sequencer.gap:
            self._look_every = _LOOK_FIRST
        else:
            self._look_every = min(_LOOK_LAST, 2 * self._look_every)
        self._look_at = now if recorded else now + self._look_every
        # Not through `put`, which keeps only so many: what was read once is not read again.
        return self.sequencer.through(recorded) + self.sequencer.take(now)
