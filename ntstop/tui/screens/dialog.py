"""What is drawn over the screen of a run: while it is on top, the last line shows its keys."""

from __future__ import annotations

from typing import TypeVar

from textual.screen import ModalScreen

from ..widgets.hints import Hints

Answer = TypeVar("Answer")


class Dialog(ModalScreen[Answer]):
    """Subclasses are the card, the notes, the help and the lists; the run goes on behind them."""

    TITLE = ""
    """What the help calls it."""

    def on_screen_resume(self) -> None:
        """It is on top now."""
        for hints in (hints for screen in self.app.screen_stack for hints in screen.query(Hints)):
            hints.redraw()
