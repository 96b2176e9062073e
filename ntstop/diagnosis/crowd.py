"""Whether other processes hold the cores of the host: then it is chance what the job and its loader get of them."""

from __future__ import annotations

from collections import deque
from typing import Final

from ntstop_probe import wire

from .finding import Evidence

CROWDED: Final = 0.85
"""Share of all cores of the host that are busy when it is said to be crowded."""
HELD: Final = 0.5
"""Share of its cores that other processes hold then."""
TAKEN: Final = 0.25
"""Or that they have taken since a moment."""
REMEMBERED: Final = 256
"""Readings, one a second."""


class Crowd:
    """Feed it the readings of the host; ask it about a stretch of steps."""

    def __init__(self) -> None:
        self._readings: deque[tuple[int, float, float]] = deque(maxlen=REMEMBERED)
        """(step, cores that other processes use, cores that are busy at all)."""

    def add(self, x: int, host: wire.Host) -> None:
        """One reading, at step `x`."""
        if host.host_cpu is not None and host.process_cpu is not None:
            own = host.process_cpu + (host.children_cpu or 0.0)
            self._readings.append((x, max(0.0, host.host_cpu - own), host.host_cpu))

    def since(self, x0: int, x1: int, hello: wire.Hello | None, *, lasting: bool = True) -> Evidence | None:
        """That others hold the cores from step `x0` on, or have come since; None where they do not.

        Not `lasting`: what held them before `x0` as well explains nothing that has begun there.
        """
        cores = int(hello.manifest.hardware.get("cores", "0") or 0) if hello is not None else 0
        then = [others for x, others, _ in self._readings if x < x0]
        now = [(others, busy) for x, others, busy in self._readings if x >= x0]
        if not cores or not now:
            return None
        after = sum(others for others, _ in now) / len(now)
        before = sum(then) / len(then) if then else after
        busy = sum(busy for _, busy in now) / len(now)
        held = lasting and min(before, after) >= HELD * cores
        if busy < CROWDED * cores or not (held or after - before >= TAKEN * cores):
            return None
        text = f"other processes use {after:.1f} of the host's {cores} cores" + (
            f", {before:.1f} before" if then else ""
        )
        return Evidence(text, "host_cpu", x1, after, "cores")
