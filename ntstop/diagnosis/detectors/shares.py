"""A share of the step that stays over a limit, with what it was before."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from .pace import Pace, joined

WINDOWS: Final = 4
"""Windows in a row that must lie over the share, or under `DONE` of it to be done."""
DONE: Final = 2.0 / 3.0
"""Of the limit."""
LASTS: Final = 1.0
"""Seconds that these windows last together at least."""
UPDATE: Final = 32
"""Windows between two updates of a card that stays open."""


class ShareWatch:
    """Whether a share of the step stays over a limit, with what it was before."""

    def __init__(self, limit: float, share: Callable[[Pace], float]) -> None:
        self._limit = limit
        self.share = share
        """Of a window."""
        self._quiet: deque[tuple[Pace, float]] = deque(maxlen=UPDATE)
        """What was before, each window with its share."""
        self._streak: list[Pace] = []
        self._shares: list[float] = []
        """Of the streak, until it is open."""
        self._under = 0
        self.open = False

    def add(self, pace: Pace) -> tuple[Pace | None, Pace] | None:
        """(before, since) while it is over the limit; since is brought up to date now and then."""
        share = self.share(pace)
        if not self.open:
            self._streak.append(pace)
            self._shares.append(share)
            if share < self._limit:
                self._quiet.extend(zip(self._streak, self._shares, strict=True))
                self._streak.clear()
                self._shares.clear()
                return None
            if len(self._streak) < WINDOWS or sum(pace.total for pace in self._streak) < LASTS:
                return None
            self.open, self._under = True, 0
            self._shares.clear()
            if self._was_no_better():
                self._streak[:0] = [pace for pace, _ in self._quiet]
                self._quiet.clear()
            elif self._quiet:
                self._begin_at_its_step()
            return self.told()
        self._under = self._under + 1 if share < DONE * self._limit else 0
        if self._under >= WINDOWS:
            self.open = False
            self._streak.clear()
            return None
        self._streak.append(pace)
        if len(self._streak) < 2 * UPDATE:
            return None
        self._streak = [joined(self._streak[:UPDATE]), *self._streak[UPDATE:]]
        return self.told() if len(self._streak) > UPDATE else None

    def told(self) -> tuple[Pace | None, Pace]:
        """(before, since) while it is open."""
        return joined(pace for pace, _ in self._quiet) if self._quiet else None, joined(self._streak)

    def _begin_at_its_step(self) -> None:
        """Cut the window in which it began: the first that is over the limit, or the last that is not yet."""
        if (parts := self._cut(self._streak[0])) is not None:
            early, self._streak[0] = parts
            self._quiet.append((early, self.share(early)))
        elif (parts := self._cut(self._quiet[-1][0])) is not None:
            early, late = parts
            self._quiet[-1] = early, self.share(early)
            self._streak.insert(0, late)

    def _cut(self, pace: Pace) -> tuple[Pace, Pace] | None:
        if pace.parts is None:
            return None
        early, late = pace.parts
        return pace.parts if self.share(early) < self._limit <= self.share(late) else None

    def _was_no_better(self) -> bool:
        """Whether what was before was over the limit as well, or near it for too short a time to be told apart."""
        total = sum(pace.total for pace, _ in self._quiet)
        mean = sum(share * pace.total for pace, share in self._quiet) / total if total else 0.0
        return mean >= self._limit or (len(self._quiet) < WINDOWS and mean >= DONE * self._limit)
