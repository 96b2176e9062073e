"""The memory of a viewer that runs all day: what is over goes soon, and leaves no holes."""

from __future__ import annotations

import ctypes
import gc
import sys
import time

EVERY = 5.0
"""Seconds from one collection of what is new to the next."""
ALL_EVERY = 600.0
"""Seconds from one collection of all to the next."""
_FELT, _SHARE = 0.08, 0.002
"""Seconds of a collection that a key would feel, and the share of the time that such ones take at most: a run of a
thousand ranks has many objects."""
_NEVER = 1_000_000
"""Collections of the younger objects until Python itself has one of all."""
_M_MMAP_THRESHOLD = -3
_LARGE = 128 * 1024
"""Bytes from which memory is asked of the system, and given back to it: glibc's own threshold at the start."""


class Upkeep:
    """Has what is new searched for cycles every few seconds, and all every ten minutes.

    Modules, styles and the state of a run stay, and looking through them takes a tenth of a second in which nobody else
    runs. Python itself does it when a quarter of all is new. But what is over, screens above all, is to go before: what
    comes next would take its place elsewhere, and the process grow.
    """

    def __init__(self) -> None:
        self._due = self._all_due = 0.0

    def tend(self, now: float) -> None:
        """Do what it is time for; to be called often, with the time in seconds, once all that was there is read."""
        if now < self._due:
            return
        wait = EVERY
        if not self._due:
            give_back_arrays()
            gc.set_threshold(*gc.get_threshold()[:2], _NEVER)
        elif now < self._all_due:
            begin = time.perf_counter()
            gc.collect()
            took = time.perf_counter() - begin
            wait = EVERY if took < _FELT else took / _SHARE
        else:
            gc.unfreeze()
            gc.collect()
            gc.freeze()
            self._all_due = now + ALL_EVERY
        self._due = now + wait


def give_back_arrays() -> bool:
    """Let glibc give back to the system what a large array has taken, and the free end of the heap, from now on.

    Of itself it raises its threshold up to 32 MB with the largest array that was freed, and keeps twice as much
    (mallopt(3), "dynamic mmap threshold"): a long recording is read in half the time so, and for a day of small
    arrays between large ones the heap has holes. Returns False, and does nothing, where the C library is another.
    """
    if sys.platform != "linux":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGE))
