"""A line for a note: on a finding that is acknowledged, at a step that is marked; kept for all viewers of the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Input, Static

from ...diagnosis.finding import Finding
from ...text import count, safe
from ...viewer_state import LONGEST_NOTE, StateError, ViewerState
from .. import bindings
from ..widgets.entry import Entry
from .dialog import Dialog


@dataclass(frozen=True, slots=True)
class Subject:
    """What a note is on. `keep` and `drop` raise `StateError`."""

    title: str
    about: str
    said: str | None
    """What was said before; None: nothing yet."""
    undo: str
    """What dropping it is called."""
    keep: Callable[[str], None]
    drop: Callable[[], None]


def acknowledgement(finding: Finding, kept: ViewerState) -> Subject:
    """Acknowledging a finding."""
    return Subject(
        f"acknowledge {finding.kind}",
        finding.symptom,
        kept.note(finding.id),
        "take back",
        lambda note: kept.acknowledge(finding.id, note),
        lambda: kept.take_back(finding.id),
    )


def mark(step: int, kept: ViewerState) -> Subject:
    """Marking a step."""
    known = kept.marks.get(step)
    return Subject(
        f"mark step {count(step)}",
        "drawn on the axis and listed among the events (8), for all viewers of the run; the job is not touched",
        known.note if known is not None else None,
        "remove",
        lambda note: kept.mark(step, note),
        lambda: kept.unmark(step),
    )


class NoteScreen(Dialog[None]):
    """Asks what there is to say; the answer is kept, or what was said before is dropped."""

    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar = bindings.NOTE

    def __init__(self, subject: Subject) -> None:
        super().__init__()
        self.subject = subject

    def compose(self) -> ComposeResult:
        """What it is about, and the line."""
        said = self.subject.said
        with Vertical(id="dialog") as dialog:
            dialog.border_title = self.subject.title
            undo = f"  ctrl+r: {self.subject.undo}" if said is not None else ""
            dialog.border_subtitle = f"enter: keep{undo}  esc: back"
            yield Static(safe(self.subject.about), markup=False)
            yield Entry(
                said or "",
                placeholder="a note, or nothing",
                max_length=LONGEST_NOTE,
                compact=True,
                select_on_focus=False,
            )

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep it."""
        self._change(lambda: self.subject.keep(event.value))
        self.query_one(Entry).answered()

    def action_take_back(self) -> None:
        """It is not said any more."""
        self._change(self.subject.drop)

    def _change(self, change: Callable[[], None]) -> None:
        if not self.is_active:  # a second enter, that came before this was gone
            return
        try:
            change()
        except StateError as error:
            self.app.notify(str(error), severity="error", timeout=5)
        else:
            self.dismiss()
