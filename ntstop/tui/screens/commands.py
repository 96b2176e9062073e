"""Everything that can be done here, by name: made from the bindings that act on the screen below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widgets import Input

from ...text import cell_width, clip
from .. import bindings
from ..keymap import key_label, words_of
from ..raster.ink import Ink
from ..raster.picture import Picture
from ..widgets.chart import PictureWidget
from ..widgets.entry import Entry
from ..widgets.pane import is_ascii, plain_if
from .dialog import Dialog

NAME = 20
"""Cells of the names."""


@dataclass(frozen=True, slots=True)
class Command:
    """An action by its name, on the node that it is bound at."""

    name: str
    keys: str
    help: str
    action: str
    node: DOMNode


def commands_of(screen: Screen[Any]) -> list[Command]:
    """What the keys of a screen do as it stands: those of the focused pane first."""
    found: dict[tuple[str, str], tuple[Binding, DOMNode, list[str]]] = {}
    for active in screen.active_bindings.values():
        binding = active.binding
        if binding.id:
            known = found.setdefault((binding.id, binding.action), (binding, active.node, []))
            known[2].append(key_label(binding.key))
    return [
        Command(
            binding.id or "",
            " ".join(keys),
            words_of(binding),
            binding.action,
            node,
        )
        for binding, node, keys in found.values()
    ]


def matching(commands: Sequence[Command], words: str) -> list[Command]:
    """Those that have all of the words in their name or help; first those whose name has them."""
    parts = words.lower().split()
    kept = [one for one in commands if all(part in f"{one.name} {one.help}".lower() for part in parts)]
    return sorted(kept, key=lambda one: not all(part in one.name for part in parts))


class CommandRows(PictureWidget):
    """The list, with the chosen one in view."""

    def __init__(self, commands: Sequence[Command]) -> None:
        super().__init__(id="command-rows")
        self.commands = commands
        self.place = 0
        self.top = 0

    def draw(self, width: int, height: int) -> Picture:
        """A row for each command: name, what it does, keys."""
        picture = Picture.blank(width, height)
        self.top = min(max(self.top, self.place - height + 1), self.place)
        plain = is_ascii(self.app)
        if not self.commands:
            picture.write(0, 2, "nothing has these words", Ink.DIM)
        for row, one in enumerate(self.commands[self.top : self.top + height]):
            is_chosen = self.top + row == self.place
            if is_chosen:
                picture.write(row, 0, ">" if plain else "▸", Ink.STRONG)
            picture.write(row, 2, clip(one.name, NAME), Ink.STRONG if is_chosen else Ink.TEXT)
            right = max(width - 1 - cell_width(one.keys), NAME + 3)
            picture.write(row, NAME + 3, clip(one.help, right - NAME - 5), Ink.TEXT if is_chosen else Ink.DIM)
            picture.write(row, right, one.keys, Ink.STRONG)
        return plain_if(plain, picture)

    def on_click(self, event: events.Click) -> None:
        """Do what was clicked."""
        place = self.top + event.y
        if place < len(self.commands):
            self.place = place
            self.app.simulate_key("enter")


class CommandsScreen(Dialog[Command | None]):
    """Type words, choose, enter: gives the command back, or None."""

    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar = bindings.COMMANDS

    def __init__(self, commands: Sequence[Command]) -> None:
        super().__init__()
        self.commands = commands
        self.rows = CommandRows(commands)

    def compose(self) -> ComposeResult:
        """The words, and what has them."""
        with Vertical(id="commands") as frame:
            frame.border_title = "commands"
            frame.border_subtitle = self.frame_keys("enter: do it")
            yield Entry(placeholder="words of what is to be done", compact=True)
            yield self.rows

    def on_input_changed(self, event: Input.Changed) -> None:
        """Only those that have the words."""
        self.rows.commands, self.rows.place = matching(self.commands, event.value), 0
        self.rows.redraw()

    def on_input_submitted(self) -> None:
        """Do the chosen one."""
        rows = self.rows
        self.dismiss(rows.commands[rows.place] if rows.commands else None)
        self.query_one(Entry).answered()

    def on_mouse_scroll_up(self) -> None:
        """Another one."""
        self.action_row(-1)

    def on_mouse_scroll_down(self) -> None:
        """Another one."""
        self.action_row(1)

    def action_row(self, offset: int) -> None:
        """Choose another one."""
        self.rows.place = min(max(self.rows.place + offset, 0), max(len(self.rows.commands) - 1, 0))
        self.rows.redraw()
