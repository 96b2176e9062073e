"""Acknowledging a finding: a line for a note, kept for all viewers of the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from ...diagnosis.finding import Finding
from ...text import safe
from ...viewer_state import LONGEST_NOTE, StateError, ViewerState
from .. import bindings


class NoteScreen(ModalScreen[None]):
    """Asks what there is to say about a finding; the answer is kept, or the acknowledgement taken back."""

    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar = bindings.NOTE

    def __init__(self, finding: Finding, kept: ViewerState) -> None:
        super().__init__()
        self.finding = finding
        self.kept = kept
        self.note = kept.note(finding.id)
        """What was said before; None: nothing yet."""

    def compose(self) -> ComposeResult:
        """The symptom, and the line."""
        known = self.note is not None
        with Vertical(id="dialog") as dialog:
            dialog.border_title = f"acknowledge {self.finding.kind}"
            dialog.border_subtitle = f"enter: keep{'  ctrl+r: take back' if known else ''}  esc: back"
            yield Static(safe(self.finding.symptom), markup=False)
            yield Input(self.note or "", placeholder="a note, or nothing", max_length=LONGEST_NOTE, compact=True)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep it."""
        self._change(lambda: self.kept.acknowledge(self.finding.id, event.value))

    def action_take_back(self) -> None:
        """It is not known any more."""
        self._change(lambda: self.kept.take_back(self.finding.id))

    def _change(self, change: Callable[[], None]) -> None:
        try:
            change()
        except StateError as error:
            self.app.notify(str(error), severity="error", timeout=5)
        else:
            self.dismiss()
