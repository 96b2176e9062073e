"""What is kept of one rank among a thousand: how it is now, and its step time over the run. No other curve.

All curves of a rank may take megabytes, and nobody looks at those of rank 700: what the ranks screen shows is enough.
"""

from __future__ import annotations

import array
import sys
from collections import deque
from collections.abc import Sequence

import numpy as np

from ntstop.curves.series import Series
from ntstop_probe.wire import ITEM_SIZES, Column, Steps

STEP_TIME, WAIT, LOSS = "step_time", "phase/data", "loss"
RECENT = 64
"""Newest steps of which step time and waiting are kept one by one."""
POINTS, BUCKETS = 512, 256
"""Of the curve of the step time: 120 kB however long the run is. A map of all ranks has at most 100 columns."""
_MOST = 256
"""Points that wait to become a part of the curve."""
_TYPES = {"f4": "f", "f8": "d", "i4": "i", "i8": "q", "u1": "B"}
_LITTLE = sys.byteorder == "little"


class Brief:
    """Takes in steps, a block at a time in a few microseconds. Not thread-safe."""

    def __init__(self) -> None:
        self.recent: dict[str, deque[float]] = {}
        """The newest values of "step_time" and "phase/data", seconds; oldest first."""
        self.newest: dict[str, float] = {}
        """The last value of each curve that is not kept, by name."""
        self.curve = Series(STEP_TIME, points=POINTS, buckets=BUCKETS)
        """Step times over the run; see `settle`."""
        self._x, self._y, self._t = array.array("d"), array.array("d"), array.array("d")

    def add(self, block: Steps) -> tuple[float, float, float] | None:
        """Take in a block whose columns lack nothing; its first and last place on the step axis, and its last time.

        None where one that is needed does, with nothing taken in: `extend` takes the rest one by one.
        """
        count, wait, loss = block.count, block.phases.get("data"), block.losses.get(LOSS)
        for column in (block.t, block.step, block.duration, wait, loss):
            if column is not None and (column.present or len(column.data) != count * ITEM_SIZES[column.kind]):
                return None
        t = _numbers(block.t)
        x = range(block.ordinal, block.ordinal + count) if block.step is None else _numbers(block.step)
        if block.duration is not None:
            self.extend(STEP_TIME, x, _numbers(block.duration), t)
        if wait is not None:
            self.extend(WAIT, x, _numbers(wait), t)
        if loss is not None:
            self.extend(LOSS, x, _numbers(loss), t)
        return float(x[0]), float(x[-1]), t[-1]

    def extend(self, name: str, x: Sequence[float], y: Sequence[float], t: Sequence[float]) -> None:
        """Take in values of a curve, as it is told; `x`, `y` and `t` as for a series."""
        if not len(y):
            return
        if name not in (STEP_TIME, WAIT):
            self.newest[name] = float(y[-1])
            return
        recent = self.recent.get(name)
        if recent is None:
            recent = self.recent[name] = deque(maxlen=RECENT)
        recent.extend(y)
        if name == STEP_TIME:
            self._x.extend(x)
            self._y.extend(y)
            self._t.extend(t)
            if len(self._x) >= _MOST:
                self.settle()

    def at(self, x: float) -> float | None:
        """The step time at `x`, as `Series.y_at` has it; what waits goes on waiting."""
        if self._x and min(self._x) <= x:
            return next(y for at, y in zip(reversed(self._x), reversed(self._y), strict=True) if at <= x)
        return self.curve.y_at(x)

    def settle(self) -> Series:
        """The curve of the step times, with all that was taken in."""
        if self._x:
            self.curve.extend(np.array(self._x), np.array(self._y), np.array(self._t))
            self._x, self._y, self._t = array.array("d"), array.array("d"), array.array("d")
        return self.curve


def _numbers(column: Column) -> list[float]:
    items: array.array[float] = array.array(_TYPES[column.kind])
    items.frombytes(column.data)
    if not _LITTLE:
        items.byteswap()
    return items.tolist()
