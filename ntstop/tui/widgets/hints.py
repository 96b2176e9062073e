"""The last line: the keys that matter most here, made from the active bindings."""

from __future__ import annotations

from textual.binding import Binding

from ...text import cell_width
from .. import bindings
from ..raster.ink import Ink
from ..raster.picture import Picture
from .chart import PictureWidget
from .pane import is_ascii, plain_if

_COMMON = {binding.action for binding in bindings.RUN if isinstance(binding, Binding)}
Hint = tuple[str, str]
"""A key and what it does."""


def draw_hints(first: list[Hint], last: list[Hint], width: int, height: int = 1) -> Picture:
    """One row; of `first` the later ones go where there is no room, `last` (help, quit) stay."""
    picture = Picture.blank(width, height)
    first = list(first)
    while first and _cells(first + last) > width:
        first.pop()
    column = 1
    for key, what in first + last:
        column = picture.write(0, column, key, Ink.STRONG)
        column = picture.write(0, column + 1, what, Ink.DIM) + 2
    return picture


def _cells(hints: list[Hint]) -> int:
    return sum(cell_width(key) + 1 + cell_width(what) + 2 for key, what in hints)


class Hints(PictureWidget):
    """The line on the screen."""

    def draw(self, width: int, height: int) -> Picture:
        """From the bindings that are marked to be shown: first what only this screen can do, then what all can."""
        own: dict[str, Hint] = {}
        first: dict[str, Hint] = {}
        last: dict[str, Hint] = {}
        for active in self.screen.active_bindings.values():
            binding = active.binding
            if binding.show and binding.description:
                side = last if active.node is self.app else first if binding.action in _COMMON else own
                side.setdefault(binding.action, (binding.key_display or binding.key, binding.description))
        picture = draw_hints([*own.values(), *first.values()], list(last.values())[::-1], width, height)
        return plain_if(is_ascii(self.app), picture)
