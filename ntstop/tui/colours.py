"""A colour and a sign for each name, the same whatever else is shown and in whichever order it came."""

from __future__ import annotations

import zlib

PLACES = 8
"""Colours, and signs, that there are."""


class ColourBook:
    """Gives each name a place from 0 to 7: its own by a checksum, the next free one where another has that."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def of(self, name: str) -> int:
        """The place of this name; once given it stays. Names beyond the eighth share places."""
        place = self._places.get(name)
        if place is None:
            own = zlib.crc32(name.encode()) % PLACES
            taken = set(self._places.values())
            tried = [(own + offset) % PLACES for offset in range(PLACES)]
            place = self._places[name] = next((place for place in tried if place not in taken), own)
        return place
