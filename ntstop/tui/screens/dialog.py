"""What is drawn over the screen of a run: while it is on top, the last line shows its keys."""

from __future__ import annotations

from typing import TypeVar

from textual import events
from textual.binding import Binding, BindingsMap
from textual.dom import DOMNode
from textual.screen import ModalScreen

from ..keymap import PLAIN_KEYS, Keymap
from ..widgets.entry import Entry, press_again
from ..widgets.hints import Hints

Answer = TypeVar("Answer")
SMALL = 24
"""Rows below which a dialog has no margin."""
FRAME = 0.8
"""Of the terminal's width that a line in the frame may have."""


class Dialog(ModalScreen[Answer]):
    """Subclasses are the card, the notes, the help and the lists; the run goes on behind them."""

    TITLE = ""
    """What the help calls it."""

    def __init__(self) -> None:
        super().__init__()
        self._early: list[events.Key] = []

    @property
    def _keymap(self) -> Keymap:
        return getattr(self.app, "keymap", PLAIN_KEYS)

    @property
    def _binding_chain(self) -> list[tuple[DOMNode, BindingsMap]]:
        """The bindings that act, each where the user has put its keys."""
        return self._keymap.chain(super()._binding_chain, self.app)

    def frame_keys(self, *typed: str) -> str:
        """For the frame: the keys that act only here, before them `typed`; how to leave is the last, and never cut."""
        told: dict[str, str] = {}
        for binding in self._shown():
            told.setdefault(binding.action, f"{binding.key_display or binding.key}: {binding.description}")
        out = told.pop("app.pop_screen", "")
        parts = [*typed, *told.values()]
        while parts and len("  ".join([*parts, out])) > FRAME * self.app.size.width:
            parts.pop()
        return "  ".join([*parts, out])

    def _shown(self) -> list[Binding]:
        bindings = [binding for _, binding in self._keymap.apply(self._bindings)]
        return [one for one in bindings if one.show and not one.action.startswith(("app.help", "app.go"))]

    def on_resize(self, event: events.Resize) -> None:
        """On a small terminal a frame has no room for a margin."""
        self.set_class(event.size.height < SMALL, "-small")

    def on_key(self, event: events.Key) -> None:
        """What was typed before the line was there is typed into it."""
        if self.AUTO_FOCUS != "Input" or not (event.is_printable or event.key == "enter"):
            return
        # The line itself lets none of these pass: it was not there when they were pressed.
        event.stop()
        if isinstance(self.focused, Entry):
            press_again(self, [event])
        else:
            self._early.append(event)

    def on_descendant_focus(self) -> None:
        """The line is there."""
        early, self._early = self._early, []
        press_again(self, early)

    def on_screen_resume(self) -> None:
        """It is on top now."""
        for hints in (hints for screen in self.app.screen_stack for hints in screen.query(Hints)):
            hints.redraw()
