"""A lock for a thread that works for long and one that draws: the first knows when the second waits, and gives way."""

from __future__ import annotations

import threading
import time
from collections import deque

_NAP = 0.0002
"""Seconds between two looks whether who waits has got its turn."""


class TurnLock:
    """A re-entrant lock, as a context. Who holds it for long asks `wanted` often, and calls `give_way` when it is.

    A lock that is let go and taken again at once leaves those who wait no chance: they are only woken meanwhile. A pause
    after each stretch of work would, but costs more than the work where the machine is busy.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.wanted: deque[None] = deque()
        """Something for each thread that waits; empty, and so false, when there is none."""

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.wanted.append(None)
            try:
                self._lock.acquire()
            finally:
                self.wanted.pop()

    def __exit__(self, *exception: object) -> None:
        self._lock.release()

    def give_way(self) -> None:
        """Wait until those who wait have got their turn; to be called without holding the lock."""
        while self.wanted:
            time.sleep(_NAP)
