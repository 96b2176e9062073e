"""A level that creeps up: Theil–Sen slope over the lowest points of equal stretches, with its interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from .plateau import theil_sen

MAX_POINTS: Final = 128
ENOUGH: Final = 12
"""Points from which the interval of the slope decides."""
FEW: Final = 5
"""Fewer than these say nothing; up to `ENOUGH` every one must lie over the one before, by a like amount."""
LIKE: Final = 0.3
SLOWING: Final = 0.5
"""When the second half of the window rises less than half as fast as the first it is filling up, not leaking."""
FEW_TIMES: Final = 3.0
"""With few points the growth must be so many times larger."""


@dataclass(frozen=True, slots=True)
class Drift:
    """From `first` at the step `first_x` to `last` at `last_x`; the slopes are per second, with a 95 % interval."""

    first_x: int
    first: float
    last_x: int
    last: float
    seconds: float
    slope: float
    low: float
    high: float
    points: int

    @property
    def growth(self) -> float:
        """What the level has grown by, at least (the lower end of the interval)."""
        return self.low * self.seconds


class DriftDetector:
    """Feed it readings; at most `MAX_POINTS` lowest points of equal numbers of readings are kept."""

    def __init__(self) -> None:
        self._points: list[tuple[float, int, float]] = []
        """(time, step, lowest reading)"""
        self._size = 1
        self._open: tuple[float, int, float] | None = None
        self._held = 0

    def clear(self) -> None:
        """Forget everything."""
        self.__init__()  # type: ignore[misc]

    def add(self, t: float, x: int, value: float) -> bool:
        """One reading; True when a point is complete."""
        if self._open is None or value < self._open[2]:
            self._open = (t, x, value)
        self._held += 1
        if self._held < self._size:
            return False
        if not self._points or t > self._points[-1][0]:
            self._points.append(self._open)
        self._open, self._held = None, 0
        if len(self._points) == MAX_POINTS:
            pairs = zip(self._points[::2], self._points[1::2], strict=True)
            self._points = [min(pair, key=lambda point: point[2]) for pair in pairs]
            self._size *= 2
        return True

    def drift(self, least: float, share: float) -> Drift | None:
        """The drift of the last half, when it is over `least` and over `share` of the level it began with."""
        points = self._points
        window = points[-max(ENOUGH, len(points) // 2) :]
        if len(window) < FEW:
            return None
        t = np.array([time for time, _, _ in window])
        y = np.array([value for _, _, value in window])
        few = len(window) < ENOUGH
        needed = max(least, share * float(y[0])) * (FEW_TIMES if few else 1.0)
        highest = max((value for _, _, value in points[: -len(window)]), default=0.0)
        if float(y[-1] - y[0]) < needed or y[-1] < highest:
            # Under a height it has had before it is a saw: caches that are emptied, epochs.
            return None
        if few:
            rises = np.diff(y) / np.diff(t)
            if not (rises >= LIKE * np.median(rises)).all():
                return None
        slope, low, high = theil_sen(t, y)
        span = float(t[-1] - t[0])
        half = len(y) // 2
        before = (y[half] - y[0]) / (t[half] - t[0])
        since = (y[-1] - y[half]) / (t[-1] - t[half])
        if low * span < (0.5 if few else 1.0) * needed or since < SLOWING * before:
            return None
        first, last = window[0], window[-1]
        return Drift(first[1], first[2], last[1], last[2], span, slope, low, high, len(window))
