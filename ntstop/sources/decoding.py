"""Frames of one process become arrivals, guarded: nothing that a file or a socket holds can raise."""

from __future__ import annotations

from collections.abc import Iterable

from ntstop_probe.wire import PROTOCOL, Frame, Hello, Layers, decode_batch

from .base import Arrival
from .soundness import is_sound


class Decoder:
    """Decodes the frames of one writer, and stops once that one turns out to speak a newer protocol."""

    def __init__(self) -> None:
        self.skipped = 0
        """Records that could not be understood, or that make no sense."""
        self.newer: int | None = None
        """The writer's protocol, when it is newer than ours."""
        self.layers_from: int | None = None
        """Step of the first sample of layers, None before it."""

    def arrivals(self, frames: Iterable[Frame]) -> list[Arrival]:
        """The records of `frames`, in order."""
        arrivals: list[Arrival] = []
        for frame in frames:
            if self.newer is not None:
                break
            records, skipped = decode_batch(frame.payload)
            self.skipped += skipped
            for record in records:
                if isinstance(record, Hello) and record.protocol > PROTOCOL:
                    self.newer = record.protocol
                    break
                if is_sound(record):
                    if self.layers_from is None and isinstance(record, Layers):
                        self.layers_from = record.step if record.step is not None else record.ordinal
                    arrivals.append(Arrival(frame.writer, frame.sequence, record))
                else:
                    self.skipped += 1
        return arrivals
