"""The card of one finding: what is seen, what it rests on, what to change."""

from __future__ import annotations

from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from ...diagnosis.finding import Evidence, Finding
from .. import bindings
from ..text import count, safe


class CardScreen(ModalScreen[None]):
    """Drawn over the overview; the run goes on behind it."""

    AUTO_FOCUS = "#dialog"
    BINDINGS: ClassVar = bindings.LAYER_OUT

    def __init__(self, finding: Finding) -> None:
        super().__init__()
        self.finding = finding

    def compose(self) -> ComposeResult:
        """Two columns: the headings of the card, and the text."""
        with VerticalScroll(id="dialog") as dialog:
            dialog.border_title = self.finding.kind
            dialog.border_subtitle = "esc: back"
            yield Static(card_table(self.finding))


def card_table(finding: Finding) -> Table:
    """The card, heading by heading; what is not known is said, not left out."""
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(no_wrap=True)
    table.add_column(ratio=1)
    claim = finding.claim
    place = "" if finding.rank is None else f" on rank {finding.rank}"
    until = "" if finding.status == "open" else f", over at step {count(finding.last_step)}"
    sections: list[tuple[str, str, list[str]]] = [
        ("Symptom", "", [claim.symptom, f"{finding.severity}, since step {count(finding.first_step)}{until}{place}"]),
        ("Where", "", [finding.where]),
        ("Failure mode", "", [finding.failure_mode or "–"]),
        ("Hypothesis", "", [claim.hypothesis]),
        ("Evidence", "·", [evidence_line(evidence) for evidence in claim.evidence]),
        ("Fix", "", [claim.fix]),
        ("Confidence", "", [claim.confidence]),
        ("Open questions", "·", claim.open_questions),
    ]
    for heading, bullet, lines in sections:
        lines = [line for line in lines if line]
        for row, line in enumerate(lines):
            table.add_row("" if row else heading, bullet, Text(safe(line)))
        if lines:
            table.add_row("", "", "")
    return table


def evidence_line(evidence: Evidence) -> str:
    """The text, which names series, step and value itself; what was not measured says so."""
    return evidence.text if evidence.basis == "measured" else f"{evidence.text} [{evidence.basis}]"
