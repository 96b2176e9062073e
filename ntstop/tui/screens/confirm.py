"""A question before something that cannot be had back."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static

from ...text import safe
from .. import bindings
from .dialog import Dialog


class ConfirmScreen(Dialog[bool]):
    """Gives True where somebody has pressed y; else nothing is given."""

    BINDINGS: ClassVar = bindings.CONFIRM
    TITLE = "question"

    def __init__(self, title: str, question: str) -> None:
        super().__init__()
        self.asked, self.question = title, question

    def compose(self) -> ComposeResult:
        """The question."""
        with Vertical(id="dialog") as dialog:
            dialog.border_title = safe(self.asked)
            dialog.border_subtitle = self.frame_keys()
            yield Static(safe(self.question), markup=False)

    def action_agree(self) -> None:
        """Yes."""
        if self.is_active:
            self.dismiss(True)
