"""The first and the last things a process recorded, from a few KiB at either end of its recording. Free of numpy."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from pathlib import Path

from ntstop_probe import registry
from ntstop_probe.wire import (
    PROTOCOL,
    Column,
    Event,
    FrameReader,
    Heartbeat,
    Hello,
    Record,
    Steps,
    decode_batch,
    unpack,
)

from .segments import segments
from .soundness import is_sound

_TAIL = 64 * 1024
_HEADS = (8 * 1024, 256 * 1024)
"""Bytes in which the first step is looked for: in a few, then in many."""
_RATE_STEPS = 64
"""Newest steps that the rate is measured over, as on the screen: the last block may be a step with a checkpoint."""
_MOST = 1024 * 1024
"""Bytes read at most; one block of 256 steps × 40 curves has 80 KiB."""


@dataclass(slots=True)
class Tail:
    """What the ends of a recording tell."""

    spoke: bool = False
    """There is at least one record."""
    hello: Hello | None = None
    newer: int | None = None
    """The protocol, when it is newer than ours: nothing else is known then."""
    first_step: int | None = None
    last_step: int | None = None
    last_loss: float | None = None
    durations: list[float] = field(default_factory=list)
    """Seconds of the newest steps, the newest first, `_RATE_STEPS` at most."""
    heartbeat: Heartbeat | None = None
    exit: Event | None = None
    exception: Event | None = None
    written: float | None = None
    """Unix time of the last write."""

    @property
    def rate(self) -> float | None:
        """Steps a second over the newest steps."""
        return len(self.durations) / sum(self.durations) if self.durations else None


def read_tail(folder: Path, length: int = _TAIL) -> Tail:
    """Look at the ends of the core stream of a process folder, at `length` bytes of it first.

    Raises `SourceError` where that is not permitted.
    """
    tail = Tail()
    numbers = segments(folder, "core")
    for number in reversed(numbers[-2:]):
        path = folder / registry.segment_name("core", number)
        try:
            modified = path.stat().st_mtime
            _read_end(path, tail, length)
        except OSError:
            continue
        tail.written = max(tail.written or 0.0, modified)
        if tail.last_step is not None:
            break
    if numbers and tail.last_step is not None:
        tail.first_step = _first_step(folder / registry.segment_name("core", numbers[0]))
    return tail


def _read_end(path: Path, tail: Tail, length: int) -> None:
    """Take in the last records of a segment, of more and more of it until there are steps among them."""
    size = path.stat().st_size
    while True:
        start = max(0, size - length)
        with os.fdopen(registry.open_file(path), "rb") as file:
            file.seek(start)
            records = _records(file.read(length))
        if start == 0 or length >= _MOST or any(isinstance(record, Steps) for record in records):
            break
        length *= 4
    for record in reversed(records):
        _take(record, tail)


def _records(data: bytes) -> list[Record]:
    reader = FrameReader()
    frames = reader.feed(data) + reader.finish()
    return [record for frame in frames for record in decode_batch(frame.payload)[0] if is_sound(record)]


def _take(record: Record, tail: Tail) -> None:
    """Keep a record where no later one of its kind is known."""
    tail.spoke = True
    if isinstance(record, Hello):
        tail.hello = tail.hello or record
        if record.protocol > PROTOCOL:
            tail.newer = record.protocol
    elif isinstance(record, Heartbeat):
        tail.heartbeat = tail.heartbeat or record
    elif isinstance(record, Event):
        if record.kind == "exit":
            tail.exit = tail.exit or record
        elif record.kind == "exception":
            tail.exception = tail.exception or record
    elif isinstance(record, Steps):
        _take_steps(record, tail)


def _take_steps(block: Steps, tail: Tail) -> None:
    durations = [value for value in reversed(_values(block.duration)) if value and 0 < value < math.inf]
    tail.durations += durations[: _RATE_STEPS - len(tail.durations)]
    if tail.last_step is None:
        last = _edge(block.step, -1)
        tail.last_step = int(last) if last is not None else block.ordinal + block.count - 1
    if tail.last_loss is None:
        tail.last_loss = next(
            (value for value in reversed(_values(block.losses.get("loss"))) if value is not None), None
        )


def _first_step(path: Path) -> int | None:
    for length in _HEADS:
        try:
            with os.fdopen(registry.open_file(path), "rb") as file:
                records = _records(file.read(length))
        except OSError:
            return None
        for record in records:
            if isinstance(record, Steps):
                first = _edge(record.step, 0)
                return int(first) if first is not None else record.ordinal
    return None


def _edge(column: Column | None, index: int) -> float | int | None:
    values = _values(column)
    return values[index] if values else None


def _values(column: Column | None) -> list[float | int | None]:
    if column is None:
        return []
    try:
        return unpack(column)
    except ValueError:
        return []
