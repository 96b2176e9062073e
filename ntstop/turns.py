"""A lock for a thread that works for long and one that draws: the first knows when the second waits, and gives way."""

from __future__ import annotations

import threading
import time
from collections import deque

_NAP = 0.0003
"""Seconds between two looks whether who waits has got its turn."""


class TurnLock:
    """A re-entrant lock, as a context. Who holds it for long looks at `wanted` often, and then calls `give_way`.

    A lock that is let go and taken again at once leaves those who wait no chance: they are only woken meanwhile. A
    pause after each stretch of work would, but costs more than the work where the machine is busy.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._waiting: deque[None] = deque()
        """Something for each thread that waits."""
        self._quiet_until = 0.0
        """0 where nobody has asked for quiet, or it is over."""
        self._earned_at = 0.0
        """When the next quiet may begin: who gave way may then work for as long."""

    @property
    def wanted(self) -> bool:
        """Whether it is time to give way."""
        return bool(self._waiting) or self._quiet_until > 0.0

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self._waiting.append(None)
            try:
                self._lock.acquire()
            finally:
                self._waiting.pop()

    def __exit__(self, *exception: object) -> None:
        self._lock.release()

    def ask_for_quiet(self, seconds: float) -> None:
        """Let whoever gives way rest for so long, beside the lock too: a key was pressed, and what it changes is to be
        painted at once. Half of the time at most is given so. Any thread may ask."""
        now = time.monotonic()
        if now >= self._earned_at:
            self._quiet_until, self._earned_at = now + seconds, now + 2 * seconds

    def give_way(self) -> None:
        """Wait until those who wait have got their turn, and the quiet is over; to be called without the lock."""
        while self.wanted:
            if 0.0 < self._quiet_until <= time.monotonic():
                self._quiet_until = 0.0
            else:
                time.sleep(_NAP)
