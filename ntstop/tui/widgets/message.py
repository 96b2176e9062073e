"""A sentence in the middle of a space that has nothing to draw yet: what is missing, in words."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from ...text import cell_width, clip, safe
from ..raster.ink import Ink
from ..raster.picture import Picture
from .chart import PictureWidget
from .pane import is_ascii, plain_if

Line = tuple[str, Ink]


def draw_message(lines: Sequence[Line], width: int, height: int) -> Picture:
    """Every line centred and wrapped at words; the block stands in the middle."""
    picture = Picture.blank(width, height)
    rows = [
        (part, ink) for text, ink in lines for part in textwrap.wrap(safe(text), max(min(width - 2, 78), 8)) or [""]
    ]
    top = max(0, (height - len(rows)) // 2)
    for row, (text, ink) in enumerate(rows[:height]):
        text = clip(text, width)
        picture.write(top + row, max(0, (width - cell_width(text)) // 2), text, ink)
    return picture


class Message(PictureWidget):
    """The sentence on the screen."""

    lines: Sequence[Line] = ()

    def say(self, *lines: Line) -> None:
        """Show these lines."""
        self.lines = lines
        self.redraw()

    def draw(self, width: int, height: int) -> Picture:
        """The lines as they are."""
        return plain_if(is_ascii(self.app), draw_message(self.lines, width, height))
