"""The collector of cycles, kept from going through hundreds of thousands of objects every few seconds."""

from __future__ import annotations

import gc

EVERY = 300.0
_NEVER = 1_000_000
"""Collections of the younger objects until one of all."""


class SeldomCollector:
    """Has all objects searched for cycles every five minutes only. Of a run of a thousand processes there are 200,000,
    and nobody else runs for a tenth of a second."""

    def __init__(self) -> None:
        self._due = 0.0

    def tend(self, now: float) -> None:
        """Collect where it is time to; to be called often, with the time in seconds."""
        if now < self._due:
            return
        if self._due:
            gc.collect()
        gc.set_threshold(*gc.get_threshold()[:2], _NEVER)
        self._due = now + EVERY
