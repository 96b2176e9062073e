"""A share of the step that stays over a limit, with what it was before."""

from __future__ import annotations

from collections import deque
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

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._quiet: deque[tuple[Pace, float]] = deque(maxlen=UPDATE)
        """What was before, each window with its share."""
        self._streak: list[Pace] = []
        self._shares: list[float] = []
        """Of the streak, until it is open."""
        self._under = 0
        self.open = False

    def add(self, pace: Pace, share: float) -> tuple[Pace | None, Pace] | None:
        """(before, since) while it is over the limit; since is brought up to date now and then."""
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

    def _was_no_better(self) -> bool:
        """Whether what was before was over the limit as well, or near it for too short a time to be told apart."""
        total = sum(pace.total for pace, _ in self._quiet)
        mean = sum(share * pace.total for pace, share in self._quiet) / total if total else 0.0
        return mean >= self._limit or (len(self._quiet) < WINDOWS and mean >= DONE * self._limit)
