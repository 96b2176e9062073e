"""Steps that have become slower, in two stages: a robust change point, then a shift of the mean."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from .pace import Pace, joined

BASELINE: Final = 64
"""Windows that the present is measured against."""
SETTLE: Final = 2
"""First windows that are left out: caches and workers fill."""
LEAST: Final = 6
"""Windows of a baseline, and windows in a row of a change."""
SIGMAS: Final = 6.0
TAIL: Final = 1.05
"""And over nearly all of the baseline: what happened now and then before is no change."""
LARGE: Final = 2.0
LARGE_SECONDS: Final = 2.0
"""A step twice as long is told after 2 seconds of it …"""
SMALL_SECONDS: Final = 20.0
SMALL_WINDOWS: Final = 12
"""… a smaller change has to last: neighbours on the host come and go within seconds."""
HISTORY: Final = 1024
SAME_PHASE: Final = 0.85
"""The same place of the epoch before was nearly as slow: sorted data, not a change."""


@dataclass(frozen=True, slots=True)
class Slowdown:
    """The windows before and since the change; `over`: it has come back."""

    before: Pace
    after: Pace
    over: bool = False

    @property
    def ratio(self) -> float:
        """Mean step now over the mean step before."""
        return self.after.mean / self.before.mean if self.before.mean > 0 else 1.0


class SlowdownDetector:
    """Feed it windows. `seconds(pace)`: how long the run took for the window, more where few steps are timed."""

    def __init__(
        self, shift: float, elapsed: Callable[[Pace], float] = lambda pace: pace.total, sigmas: float = SIGMAS
    ) -> None:
        self._shift = shift
        self._sigmas = sigmas
        self._elapsed = elapsed
        self._settling = SETTLE
        self._baseline: deque[Pace] = deque()
        self._medians: list[float] = []
        """Those of the baseline, rising."""
        self._streak: list[Pace] = []
        self._history: deque[Pace] = deque(maxlen=HISTORY)
        self._before: Pace | None = None
        self._back: list[Pace] = []
        self._epochs: deque[int] = deque(maxlen=3)
        """Where the last epochs began."""

    def epoch(self, x: int) -> None:
        """An epoch begins."""
        self._epochs.append(x)

    def clear(self) -> None:
        """What comes is measured against itself: another attempt, maybe another machine."""
        self._baseline.clear()
        self._medians.clear()
        self._streak.clear()
        self._back.clear()
        self._before = None
        self._settling = SETTLE

    def add(self, pace: Pace) -> Slowdown | None:
        """The change, with every window since; None while there is none."""
        self._history.append(pace)
        if self._settling:
            self._settling -= 1
            return None
        if self._before is not None:
            return self._follow(self._before, pace)
        if len(self._baseline) < LEAST or self._is_usual(pace.median):
            self._learn((*self._streak, pace))
            self._streak.clear()
            return None
        self._streak.append(pace)
        return self._judge()

    def _learn(self, paces: Iterable[Pace]) -> None:
        """Take windows into the baseline."""
        for pace in paces:
            if len(self._baseline) == BASELINE:
                del self._medians[bisect_left(self._medians, self._baseline.popleft().median)]
            self._baseline.append(pace)
            insort(self._medians, pace.median)

    def _is_usual(self, median: float) -> bool:
        """Whether a window is as those of the baseline."""
        medians = self._medians
        middle = len(medians) // 2
        level = medians[middle]
        if median <= level * (1.0 + self._shift):
            return True
        spread = 1.4826 * sorted([abs(value - level) for value in medians])[middle]
        tail = medians[int(0.95 * (len(medians) - 1))]
        return median <= max(level + self._sigmas * spread, TAIL * tail)

    def _judge(self) -> Slowdown | None:
        streak = self._streak
        if len(streak) < LEAST:
            return None
        lasted = sum(map(self._elapsed, streak))
        before, after = joined(self._baseline), joined(streak)
        ratio = min(after.median / max(before.median, 1e-9), after.mean / max(before.mean, 1e-9))
        large = ratio >= LARGE and lasted >= LARGE_SECONDS
        if not large and (lasted < SMALL_SECONDS or len(streak) < SMALL_WINDOWS):
            return None
        if ratio < 1.0 + self._shift or self._as_an_epoch_ago(after):
            self._learn(streak)
            streak.clear()
            return None
        self._before = before
        self._begin_at_its_step()
        return Slowdown(before, joined(streak))

    def _begin_at_its_step(self) -> None:
        """Cut the window in which it began: the first of the streak, or the last that was usual yet."""
        streak = self._streak
        if (late := self._late_part(streak[0])) is not None:
            streak[0] = late
        elif (late := self._late_part(self._baseline[-1])) is not None:
            streak.insert(0, late)

    def _late_part(self, pace: Pace) -> Pace | None:
        if pace.parts is None:
            return None
        early, late = pace.parts
        return late if self._is_usual(early.median) and not self._is_usual(late.median) else None

    def _follow(self, before: Pace, pace: Pace) -> Slowdown:
        middle = (before.median + joined(self._streak[-LEAST:]).median) / 2
        self._back = [*self._back, pace] if pace.median < middle else []
        if len(self._back) >= LEAST:
            found = Slowdown(before, joined(self._streak), over=True)
            self._learn(self._back)
            self._streak, self._back, self._before = [], [], None
            return found
        if not self._back:
            self._streak.append(pace)
            if len(self._streak) > BASELINE:
                self._streak = [joined(self._streak[:-LEAST]), *self._streak[-LEAST:]]
        return Slowdown(before, joined(self._streak))

    def _as_an_epoch_ago(self, now: Pace) -> bool:
        if len(self._epochs) < 2:
            return False
        length = self._epochs[-1] - self._epochs[-2]
        slack = max(length // 20, now.x1 - now.x0)
        then = [
            pace.median
            for pace in self._history
            if now.x0 - length - slack <= pace.x0 and pace.x1 <= now.x1 - length + slack
        ]
        return bool(then) and max(then) >= SAME_PHASE * now.median
