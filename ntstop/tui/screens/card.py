"""The card of one finding: what is seen, what it rests on, what to change."""

from __future__ import annotations

from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Static

from ...diagnosis import card
from ...diagnosis.finding import Finding
from ...diagnosis.reproduction import Reproduction
from ...text import safe
from ...viewer_state import ViewerState
from .. import bindings
from .note import NoteScreen, acknowledgement

NARROW = 80
"""Columns of the terminal below which the headings of a card take too much of its width."""


class CardScreen(ModalScreen[None]):
    """Drawn over the overview; the run goes on behind it."""

    AUTO_FOCUS = "#dialog"
    BINDINGS: ClassVar = bindings.CARD

    class Curves(Message):
        """The curves at the step where a finding began are asked for."""

        def __init__(self, finding: Finding) -> None:
            super().__init__()
            self.finding = finding

    def __init__(self, finding: Finding, how: Reproduction, kept: ViewerState) -> None:
        super().__init__()
        self.finding = finding
        self.how = how
        self.kept = kept

    def compose(self) -> ComposeResult:
        """Two columns: the headings of the card, and the text."""
        with VerticalScroll(id="dialog") as dialog:
            dialog.border_title = self.finding.kind
            dialog.border_subtitle = "a: acknowledge  enter: curves  esc: back"
            yield Static(self.table())

    def on_screen_resume(self) -> None:
        """What was said about it in the meantime."""
        self.query_one(Static).update(self.table())

    def table(self) -> Table:
        """The card as it stands."""
        is_narrow = self.app.size.width < NARROW
        return card_table(self.finding, self.how, self.kept.note(self.finding.id), is_narrow=is_narrow)

    def action_curves(self) -> None:
        """Leave, and look at the curves there."""
        self.app.post_message(self.Curves(self.finding))
        self.app.pop_screen()

    def action_acknowledge(self) -> None:
        """Ask for a note."""
        self.app.push_screen(NoteScreen(acknowledgement(self.finding, self.kept)))


def card_table(finding: Finding, how: Reproduction, note: str | None = None, *, is_narrow: bool = False) -> Table:
    """The card, heading by heading; what is not known is said, not left out.

    `note`: that of who acknowledged it; `is_narrow`: headings stand above their text, not beside it.
    """
    table = Table.grid(padding=(0, 1))
    if not is_narrow:
        table.add_column(no_wrap=True, style="bold")
    table.add_column(no_wrap=True)
    table.add_column(ratio=1)
    beside = [] if is_narrow else [""]
    table.add_row(*beside, "", Text(safe(card.title(finding))))
    if note is not None:
        table.add_row(*beside, "", Text(safe(card.acknowledged(note))))
    for heading, lines in card.fields_on_screen(finding, how):
        table.add_row(*beside, "", "")
        if is_narrow:
            table.add_row("", Text(heading, style="bold"))
        for row, line in enumerate(lines):
            first = [] if is_narrow else ["" if row else heading]
            table.add_row(*first, "·" if len(lines) > 1 else "", Text(safe(line)))
    return table
