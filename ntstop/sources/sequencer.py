"""Puts the frames of one writer in order, whether they come from its socket or its recording."""

from __future__ import annotations

from ntstop_probe.wire import Frame

PATIENCE = 2.0
"""Seconds to wait for a frame that neither the socket nor the recording has; then it is lost."""
_FIRST = 1
"""Number of a writer's first frame."""
MOST_HELD = 4096
"""Frames kept while an earlier one is missing; more than that are dropped, to be read from the recording."""


class Sequencer:
    """Takes frames in any order and gives them out by rising sequence number, each once."""

    def __init__(self) -> None:
        self._held: dict[int, Frame] = {}
        self._next: int | None = None
        self._gap_since: float | None = None
        self.lost = 0
        """Frames that never came."""

    @property
    def gap(self) -> bool:
        """Whether frames wait for one that is missing."""
        return bool(self._held) and self._next is not None and self._next not in self._held

    def put(self, frame: Frame, most: int = MOST_HELD) -> None:
        """Take a frame of the socket in, unless `most` wait already. One that was given out already is forgotten."""
        known = self._next is not None and frame.sequence < self._next
        if not known and (len(self._held) < most or frame.sequence == self._next):
            self._held[frame.sequence] = frame

    def through(self, recorded: list[Frame]) -> list[Frame]:
        """Give out `recorded`, which is in order, with what is held in its gaps. Nobody waits for the rest of a gap:
        what was written before a frame that is in the recording will not appear there after it."""
        ordered: list[Frame] = []
        for frame in recorded:
            if self._next is not None and frame.sequence < self._next:
                continue
            while self._next is not None and self._next < frame.sequence:
                held = self._held.pop(self._next, None)
                if held is None:
                    # Straight to the next frame there is: a pruned stretch may be millions of numbers long.
                    below = (number for number in self._held if number < frame.sequence)
                    following = min(below, default=frame.sequence)
                    self.lost += following - self._next
                    self._next = following
                    continue
                ordered.append(held)
                self._next += 1
            self._held.pop(frame.sequence, None)
            ordered.append(frame)
            self._next = frame.sequence + 1
        return ordered

    def take(self, now: float) -> list[Frame]:
        """The frames whose turn it is. After `PATIENCE` seconds a missing one is given up and counted as lost."""
        if self._next is not None:
            for number in [number for number in self._held if number < self._next]:
                del self._held[number]
        if not self._held:
            self._gap_since = None
            return []
        if self._next is None:
            # The first that we hear may not be the first there was.
            self._next = min(_FIRST, min(self._held))
        if self._next not in self._held:
            if self._gap_since is None:
                self._gap_since = now
            if now - self._gap_since < PATIENCE:
                return []
            following = min(self._held)
            self.lost += following - self._next
            self._next = following
        self._gap_since = None
        ordered: list[Frame] = []
        while (frame := self._held.pop(self._next, None)) is not None:
            ordered.append(frame)
            self._next += 1
        return ordered
