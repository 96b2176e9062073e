"""The card of one finding: what is seen, what it rests on, what to change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widgets import Static

from ...diagnosis import card
from ...diagnosis.finding import Finding
from ...diagnosis.report import reproduction_of
from ...text import safe
from .. import bindings
from ..workspace import Workspace
from .dialog import Dialog
from .note import NoteScreen, acknowledgement

NARROW = 80
"""Columns of the terminal below which the headings of a card take too much of its width."""
LOOK = 1.0
"""Seconds from one look at the finding to the next."""


class CardScreen(Dialog[None]):
    """Drawn over the screen of the run, which goes on behind it; so does the card."""

    AUTO_FOCUS = "#dialog"
    BINDINGS: ClassVar = bindings.CARD
    TITLE = "card"

    class Curves(Message):
        """The curves at the step where a finding began are asked for."""

        def __init__(self, finding: Finding) -> None:
            super().__init__()
            self.finding = finding

    def __init__(self, workspace: Workspace, finding: Finding) -> None:
        super().__init__()
        self.workspace = workspace
        self.finding = finding
        self._told: object = None

    def compose(self) -> ComposeResult:
        """Two columns: the headings of the card, and the text."""
        with VerticalScroll(id="dialog") as dialog:
            dialog.border_subtitle = self.frame_keys()
            yield Static()

    def on_mount(self) -> None:
        """Follow what becomes of the finding."""
        self.refresh_card()
        self.set_interval(LOOK, self.refresh_card)

    def on_screen_resume(self) -> None:
        """What was said about it in the meantime."""
        self.refresh_card()

    def on_resize(self, event: events.Resize) -> None:
        """Another width may have its headings elsewhere."""
        self.refresh_card()

    def refresh_card(self) -> None:
        """The card as it stands, where that has changed."""
        session = self.workspace.session
        self.finding = next((known for known in self.workspace.findings if known.id == self.finding.id), self.finding)
        with session.lock:
            how = reproduction_of(session.engine, self.finding)
        title = card.title(self.finding, has_ended=session.has_ended)
        fields = card.fields_on_screen(self.finding, how)
        note, is_narrow = session.kept.note(self.finding.id), self.app.size.width < NARROW
        if (told := (title, fields, note, is_narrow)) != self._told:
            self._told = told
            self.query_one("#dialog").border_title = self.finding.kind
            self.query_one(Static).update(card_table(title, fields, note, is_narrow=is_narrow))

    def action_another(self, offset: int) -> None:
        """The card of another finding, and the cursor to where it began."""
        if (finding := self.workspace.choose(offset)) is not None:
            self.finding = finding
            self.query_one("#dialog").scroll_home(animate=False)
            self.refresh_card()

    def action_curves(self) -> None:
        """Leave, and look at the curves there."""
        self.app.post_message(self.Curves(self.finding))
        self.app.pop_screen()

    def action_acknowledge(self) -> None:
        """Ask for a note."""
        self.app.push_screen(NoteScreen(acknowledgement(self.finding, self.workspace.session.kept)))


def card_table(
    title: str, fields: Sequence[tuple[str, Sequence[str]]], note: str | None = None, *, is_narrow: bool = False
) -> Table:
    """The card, heading by heading; what is not known is said, not left out.

    `note`: that of who acknowledged it; `is_narrow`: headings stand above their text, not beside it.
    """
    table = Table.grid(padding=(0, 1))
    if not is_narrow:
        table.add_column(no_wrap=True, style="bold")
    table.add_column(no_wrap=True)
    table.add_column(ratio=1)
    beside = [] if is_narrow else [""]
    table.add_row(*beside, "", Text(safe(title)))
    if note is not None:
        table.add_row(*beside, "", Text(safe(card.acknowledged(note))))
    for heading, lines in fields:
        table.add_row(*beside, "", "")
        if is_narrow:
            table.add_row("", Text(heading, style="bold"))
        for row, line in enumerate(lines):
            first = [] if is_narrow else ["" if row else heading]
            table.add_row(*first, "·" if len(lines) > 1 else "", Text(safe(line)))
    return table
