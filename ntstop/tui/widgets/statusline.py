"""The first line: which run, is it alive, how far, how fast, at what cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...text import cell_width, clip, safe
from ..raster.ink import Ink
from ..raster.picture import Picture
from .chart import PictureWidget
from .pane import is_ascii, plain_if

GAP = 2
NAME = 16
"""Cells that the beginning of the line may claim: which run it is."""
DETAIL = 25
"""Weight below which a part of the right side goes for that."""


@dataclass(frozen=True)
class Part:
    """One piece of the line. The least weighty goes first when there is no room."""

    text: str
    ink: Ink = Ink.TEXT
    weight: int = 0
    short: str = ""
    """The same in fewer cells, for where there is no room for all; "": there is no shorter way."""


def draw_status(left: Sequence[Part], right: Sequence[Part], width: int, height: int = 1) -> Picture:
    """One row: `left` says who, `right` how it goes and is served first; both lose their least weighty parts."""
    picture = Picture.blank(width, height)
    if _cells(left) + _cells(right) > width:
        right = [replace(part, text=part.short or part.text) for part in right]
    right = _kept(right, width - 2)
    name = min(cell_width(safe(left[0].text)), NAME) + GAP if left else 0
    while len(right) > 1 and _cells(right) + name > width - 2 and min(part.weight for part in right) < DETAIL:
        right.remove(min(right, key=lambda part: part.weight))
    used = _cells(right)
    room = width - 2 - used
    left = _kept(left, room) if room >= min(name - GAP, 7) else []
    if len(left) == 1:
        left = [replace(left[0], text=clip(left[0].text, room))]
    _write(picture, 1, left)
    _write(picture, max(1, width - 1 - used + GAP), right)
    return picture


def _kept(parts: Sequence[Part], width: int) -> list[Part]:
    kept = [Part(safe(part.text), part.ink, part.weight) for part in parts if part.text]
    while len(kept) > 1 and _cells(kept) > width + GAP:
        kept.remove(min(kept, key=lambda part: part.weight))
    return kept


def _cells(parts: Sequence[Part]) -> int:
    return sum(cell_width(safe(part.text)) + GAP for part in parts if part.text)


def _write(picture: Picture, column: int, parts: Sequence[Part]) -> None:
    for part in parts:
        column = picture.write(0, column, part.text, part.ink) + GAP


class StatusLine(PictureWidget):
    """The line on the screen."""

    left: Sequence[Part] = ()
    right: Sequence[Part] = ()

    def set(self, left: Sequence[Part], right: Sequence[Part]) -> None:
        """Show these parts."""
        self.left, self.right = left, right
        self.redraw()

    def draw(self, width: int, height: int) -> Picture:
        """Fit both sides."""
        return plain_if(is_ascii(self.app), draw_status(self.left, self.right, width, height))
