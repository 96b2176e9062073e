"""One process as it is watched: its recording to the end, then what its socket says, then its recording again."""

from __future__ import annotations

from pathlib import Path

from ntstop_probe import registry
from ntstop_probe.registry import ProcessInfo
from ntstop_probe.wire import PROTOCOL, Frame, Heartbeat

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
_LOOK_SHARE = 0.001
"""Seconds for each process between two looks at the first: of a thousand, each finds then what has been written in a
second, and costs little more than one that finds a single frame."""
MANY = 32
"""From as many processes on, what is looked at in all of them is looked at less often, and in smaller pieces."""
_CHUNK_OF_MANY = 64 * 1024
"""Bytes that are read at a time of each of many: what is read is held until its turn, and the ranks go side by side."""


class Feed:
    """Frames of one process in order. Knows no socket: whoever has one calls `hear`."""

    def __init__(self, folder: Path, *, among: int = 1) -> None:
        """`among`: processes of the run, which share the memory for what is read, and the time for looking."""
        self.folder = folder
        self.info: ProcessInfo | None = None
        self.recording = ProcessRecording(folder, chunk=_CHUNK_OF_MANY if among >= MANY else None)
        self.sequencer = Sequencer()
        self.decoder = Decoder()
        self.complete = False
        """The recording has been read to its end once."""
        self.connected: str | None = None
        """Endpoint that is listened to."""
        self.look_now = False
        """Look at the recording with the next `poll`."""
        self.reached = 0.0
        """Unix time of the newest heartbeat among what was given out, in rising order where there is none."""
        self._heard = float("-inf")
        self._look_at = 0.0
        self._look_first = self._look_every = max(_LOOK_FIRST, min(_LOOK_LAST, among * _LOOK_SHARE))
        self._info_stamp: tuple[int, int] | None = None

    @property
    def order(self) -> tuple[int, int, float, str]:
        """Earlier attempts come first, so that their curves do too; of one attempt rank 0, by which the others are
        judged. A process without a rank comes before."""
        info = self.info
        if info is None:
            return (0, -1, 0.0, self.folder.name)
        return (info.attempt, -1 if info.rank is None else info.rank, info.wall, self.folder.name)

    @property
    def leads(self) -> bool:
        """Whether it is read to its end before others are begun; those are read side by side, by the time."""
        return self.info is None or not self.info.rank

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
        """The records whose turn it is, about 1 MB of them at most. Raises `SourceError`."""
        arrivals = self.decoder.arrivals(self.frames(now))
        if not self.complete:
            beats = (arrival.record for arrival in reversed(arrivals) if type(arrival.record) is Heartbeat)
            beat = next(beats, None)
            self.reached = self.reached + 1.0 if beat is None else beat.wall
        return arrivals

    def frames(self, now: float) -> list[Frame]:
        """The frames whose turn it is, about 1 MB of them at most. Raises `SourceError`."""
        frames: list[Frame] = []
        if not self.complete:
            frames = self.sequencer.through(self.recording.read())
            # Not only once there is nothing: one that goes on being written has always more when it is asked again.
            self.complete = self.recording.at_end
            if not self.complete:
                return frames
        # The recording before anything is given up: whoever was kept from looking for long has it there.
        return frames + (self._look(now) if self.is_due(now) else self.sequencer.take(now))

    def is_due(self, now: float) -> bool:
        """Whether the next `poll` looks at the recording."""
        return self.look_now or ((self.sequencer.gap or not self.live(now)) and now >= self._look_at)

    def due_since(self) -> float:
        """Since when the recording may be looked at again."""
        return self._look_at

    def _look(self, now: float) -> list[Frame]:
        """See whether the recording has what the socket did not bring."""
        recorded = self.recording.read()
        self.look_now = self.look_now and not self.recording.at_end
        if recorded or self.sequencer.gap:
            self._look_every = self._look_first
        else:
            self._look_every = min(_LOOK_LAST, 2 * self._look_every)
        self._look_at = now + self._look_every if not recorded or self._look_first > _LOOK_FIRST else now
        # Not through `put`, which keeps only so many: what was read once is not read again.
        return self.sequencer.through(recorded) + self.sequencer.take(now)
