"""The same screen in half the bytes: a colour is sent only where it changes.

Textual sends both colours and a reset with every piece of text, about forty bytes each; over a slow link that is most
of what a repaint costs. What is said here is what changes from one piece to the next; a blank has no colour of its own,
and a place of the cursor none at all.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_SGR = re.compile(r"\x1b\[([0-9;]*)m")
_MOVES = re.compile(r"(?:\x1b\[\d+;\d+H)+")
"""Places of the cursor: nothing is drawn there."""
_REVERSE = "7"
"""With this attribute a blank has the colour of the text."""


class Pen(NamedTuple):
    """How the terminal writes: parameters of SGR for the colours, "" for its own, and the attributes in their order."""

    fore: str = ""
    back: str = ""
    attributes: tuple[str, ...] = ()


PLAIN = Pen()


class Slimmer:
    """Rewrites what goes to one terminal. After each piece the terminal is in the state it would be in without this."""

    def __init__(self) -> None:
        self._wanted = PLAIN

    def slim(self, data: str) -> str:
        """`data` with fewer bytes and the same effect."""
        if "\x1b[" not in data:
            return data
        actual = wanted = self._wanted
        out: list[str] = []
        # Text and parameters take turns.
        for place, piece in enumerate(_SGR.split(data)):
            if place % 2:
                wanted = applied(wanted, piece)
            elif piece:
                needed = actual if _MOVES.fullmatch(piece) else wanted
                is_alike = wanted.attributes == actual.attributes and _REVERSE not in wanted.attributes
                if needed is wanted and piece.isspace() and is_alike:
                    needed = wanted._replace(fore=actual.fore)
                if needed != actual:
                    out.append(change(actual, needed))
                    actual = needed
                out.append(piece)
        if wanted != actual:
            out.append(change(actual, wanted))
        self._wanted = wanted
        return "".join(out)


@lru_cache(maxsize=4096)
def applied(pen: Pen, parameters: str) -> Pen:
    """The pen after an SGR sequence with these parameters."""
    words = parameters.split(";") if parameters else ["0"]
    place = 0
    while place < len(words):
        word = words[place] or "0"
        number, length = int(word), 1
        if number in (38, 48):
            length = 5 if words[place + 1 : place + 2] == ["2"] else 3
        colour = ";".join(words[place : place + length])
        if number == 0:
            pen = PLAIN
        elif number in (38, 39) or 30 <= number <= 37 or 90 <= number <= 97:
            pen = pen._replace(fore="" if number == 39 else colour)
        elif number in (48, 49) or 40 <= number <= 47 or 100 <= number <= 107:
            pen = pen._replace(back="" if number == 49 else colour)
        elif word not in pen.attributes:
            pen = pen._replace(attributes=(*pen.attributes, word))
        place += length
    return pen


@lru_cache(maxsize=4096)
def change(actual: Pen, wanted: Pen) -> str:
    """The shortest sequence that makes a terminal that writes as `actual` write as `wanted`."""
    if wanted == PLAIN:
        return "\x1b[0m"
    parts: list[str] = []
    if actual.attributes != wanted.attributes[: len(actual.attributes)]:
        # An attribute is taken back by starting again: its own end may end another one too.
        parts, actual = ["0"], PLAIN
    parts += wanted.attributes[len(actual.attributes) :]
    if wanted.fore != actual.fore:
        parts.append(wanted.fore or "39")
    if wanted.back != actual.back:
        parts.append(wanted.back or "49")
    return f"\x1b[{';'.join(parts)}m"
