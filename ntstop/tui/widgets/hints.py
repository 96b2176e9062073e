"""The last line: the keys that matter most here, made from the active bindings."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events
from textual.binding import Binding
from textual.keys import _character_to_key

from ...text import cell_width
from .. import bindings
from ..raster.ink import Ink
from ..raster.picture import Picture
from .chart import PictureWidget
from .pane import is_ascii, plain_if

_COMMON = {binding.action for binding in bindings.RUN if isinstance(binding, Binding)}


_ARROWS = {"←": "left", "→": "right", "↑": "up", "↓": "down"}


@dataclass(frozen=True, slots=True)
class Hint:
    """A key, or two that belong together (`nN`, `1-8`), and what they do. `press`: the key that a click presses."""

    key: str
    what: str
    press: str = ""

    @property
    def width(self) -> int:
        """Cells, with the gap behind."""
        return cell_width(self.key) + 1 + cell_width(self.what) + 2

    def pressed(self, cell: int) -> str:
        """The key that a click presses so many cells right of the beginning."""
        character = self.key[cell] if cell < len(self.key) else ""
        if character and (len(self.key) == 2 or character.isdigit()):
            return _ARROWS.get(character) or _character_to_key(character)
        return self.press


def placed(first: list[Hint], last: list[Hint], width: int) -> list[tuple[int, Hint]]:
    """Where each stands; of `first` the later ones go where there is no room, `last` (help, quit) stay."""
    first = list(first)
    while first and sum(hint.width for hint in first + last) > width:
        first.pop()
    found, column = [], 1
    for hint in first + last:
        found.append((column, hint))
        column += hint.width
    return found


def draw_hints(hints: list[tuple[int, Hint]], width: int, height: int = 1) -> Picture:
    """One row."""
    picture = Picture.blank(width, height)
    for column, hint in hints:
        picture.write(0, picture.write(0, column, hint.key, Ink.STRONG) + 1, hint.what, Ink.DIM)
    return picture


class Hints(PictureWidget):
    """The line on the screen."""

    hints: list[tuple[int, Hint]] = []  # noqa: RUF012 - replaced, never changed

    def draw(self, width: int, height: int) -> Picture:
        """From the bindings that are marked to be shown: first what only this screen can do, then what all can.

        Of what lies over the screen, where something does: nothing else can be pressed.
        """
        own: dict[str, Hint] = {}
        first: dict[str, Hint] = {}
        last: dict[str, Hint] = {}
        for active in self.app.screen.active_bindings.values():
            binding = active.binding
            if binding.show and binding.description:
                is_common = binding.action in _COMMON and self.app.screen is self.screen
                side = last if active.node is self.app else first if is_common else own
                shown = binding.key_display or binding.key
                side.setdefault(binding.action, Hint(shown, binding.description, binding.key))
        self.hints = placed([*own.values(), *first.values()], list(last.values())[::-1], width)
        return plain_if(is_ascii(self.app), draw_hints(self.hints, width, height))

    def on_click(self, event: events.Click) -> None:
        """Press the key that was clicked."""
        for column, hint in self.hints:
            if column <= event.x < column + hint.width - 2:
                self.app.simulate_key(hint.pressed(event.x - column))
