"""Time on the clock of a CUDA device: events recorded as the loop goes by, looked at when the device has passed them.

On a device the host's phases are the time it takes to launch kernels. The events of a step stand on its stream one
after another, so the stretches between them add up; "data" is what the device had to wait for, which is nothing while
the host runs ahead. No event is created once enough are there, none is waited for, and nothing happens while a graph
is captured.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ..rows import StepRow

ORDINARY = frozenset({"data", "forward", "input+forward", "backward", "optimizer", "other"})
"""Phases that the marks can tell apart; a step with another one (an evaluation, say) stays on the host's clock."""
MAX_EVENTS = 1_024
"""Made as they are needed: some seven a step, for the some dozens of steps that a host runs ahead."""
MAX_MARKS = 256
"""In one step: with more micro-batches than that it stays on the host's clock."""
_CLOCKS: dict[tuple[str, ...], dict[str, str]] = {}


class Tape:
    """The events of one finished step, oldest first, each with the phase that ended there."""

    __slots__ = ("_marks", "_pool", "_start")

    def __init__(self, pool: list[Any], start: Any, marks: list[tuple[str, Any]]) -> None:
        self._pool = pool
        self._start = start
        self._marks = marks

    @property
    def ready(self) -> bool:
        """The device has passed the last of them. On the training thread only, and not while a graph is captured."""
        return bool(self._marks[-1][1].query())

    def fill(self, row: StepRow) -> None:
        """Put the device's seconds in the place of the host's."""
        phases: dict[str, float] = {}
        before = self._start
        for phase, event in self._marks:
            phases[phase] = phases.get(phase, 0.0) + before.elapsed_time(event) / 1e3
            before = event
        row.phases = phases
        row.clocks = _CLOCKS.setdefault(tuple(phases), dict.fromkeys(phases, "device"))

    def recycle(self) -> None:
        """The events may be used again: all but the last, with which the next step begins."""
        self._pool.append(self._start)
        self._pool.extend(event for _, event in self._marks[:-1])


class DeviceClock:
    """The marks of the open step, on the current stream of one device."""

    def __init__(self, device: Any) -> None:
        self._cuda: Any = sys.modules["torch"].cuda
        self._device = device
        self._pool: list[Any] = []
        self._made = 0
        self._start: Any = None
        """Where the open step began; None: nowhere that is known."""
        self._marks: list[tuple[str, Any]] = []
        self._broken = True

    def mark(self, phase: str) -> None:
        """Here `phase` ends, and what follows begins."""
        if self._start is None and phase != "optimizer":
            return
        event = self._record()
        if event is None or len(self._marks) >= MAX_MARKS:
            self.spoil()
        elif self._start is None:
            # Without a loader, the next step begins where the optimizer ends.
            self._start = event
        else:
            self._marks.append((phase, event))

    def spoil(self) -> None:
        """The open step is not ordinary, or a part of it went by unseen: it stays on the host's clock."""
        self._pool.extend(event for _, event in self._marks)
        if self._start is not None:
            # It may still be the end of the step before: that one keeps it.
            self._made -= 1
        self._start, self._marks = None, []
        self._broken = True

    def begin(self) -> None:
        """A step begins here, after some of which nothing was marked."""
        self.spoil()
        self._start = self._record()

    def close(self, row: StepRow, whole: bool) -> Tape | None:
        """A step has ended: now (`whole`), or when its optimizer did. None: it stays on the host's clock."""
        marks, rest = self._marks, []
        if not whole:
            cut = max((place + 1 for place, (phase, _) in enumerate(marks) if phase == "optimizer"), default=0)
            marks, rest = marks[:cut], marks[cut:]
        self._marks = rest
        usable = not self._broken and row.duration is not None and row.phases.keys() <= ORDINARY
        self._broken = False
        if self._start is None:
            self._start = self._record() if whole else None
            self._broken = self._start is None
            return None
        if not marks:
            return None
        tape = Tape(self._pool, self._start, marks)
        self._start = marks[-1][1]
        if usable:
            return tape
        tape.recycle()
        return None

    def _record(self) -> Any:
        if self._cuda.is_current_stream_capturing():
            return None
        if self._pool:
            event = self._pool.pop()
        elif self._made < MAX_EVENTS:
            self._made += 1
            event = self._cuda.Event(enable_timing=True)
        else:
            return None
        event.record(self._cuda.current_stream(self._device))
        return event


class DeviceTimer:
    """How long the device takes over the probe's own work, one stretch at a time."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """Of the last stretch that is over; 0 on the host, where the launch is the work."""
        self._events: tuple[Any, Any] | None = None
        self._stream: Any = None
        """Where a stretch has begun."""
        self._under_way = False

    def start(self, tensors: Sequence[Any | None]) -> None:
        """Work on `tensors` begins."""
        device = next((tensor.device for tensor in tensors if tensor is not None), None)
        if device is None or device.type != "cuda":
            return
        cuda: Any = sys.modules["torch"].cuda
        if cuda.is_current_stream_capturing():
            return
        if self._events is None:
            self._events = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        began, ended = self._events
        if self._under_way:
            if not ended.query():
                return
            self._under_way = False
            self.seconds = began.elapsed_time(ended) / 1e3
        self._stream = cuda.current_stream(device)
        began.record(self._stream)

    def stop(self) -> None:
        """All of it has been launched."""
        if self._events is not None and self._stream is not None:
            self._events[1].record(self._stream)
            self._stream = None
            self._under_way = True
