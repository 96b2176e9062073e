"""Everything that was found; of the chosen one the curve that it rests on and the card, where there is room."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Container

from ...diagnosis.finding import Finding
from .. import bindings
from ..facts import Facts
from ..widgets.card import CardPane
from ..widgets.evidence import EvidencePane
from ..widgets.finding_table import FindingTable
from ..widgets.pane import Pane
from ..workspace import Look
from .base import RunScreen
from .card import CardScreen

CURVE = 12
"""Rows of the curve where it stands between the list and the card."""


class FindingsScreen(RunScreen):
    """The list, the curve, the card."""

    TITLE = "findings"
    BINDINGS: ClassVar = bindings.FINDINGS_SCREEN

    def body(self) -> ComposeResult:
        """List and curve, card."""
        with Container(classes="major"):
            yield FindingTable(id="all-findings")
            yield EvidencePane(id="evidence")
        with Container(classes="minor"):
            yield CardPane(id="card")

    def layout_classes(self, width: int, height: int) -> dict[str, bool]:
        """The card goes below, and away on a very short terminal, where enter opens it; the curve goes before it."""
        is_wide = width >= 150
        return {
            "-one-column": not is_wide,
            "-no-second": not is_wide and height < 16,
            "-no-evidence": height < (24 if is_wide else 38),
        }

    def chosen(self) -> Finding | None:
        """The chosen finding of all screens; where the filters hide it, the first that they do not."""
        table, finding = self.query_one(FindingTable), self.workspace.finding
        if finding is not None and table.lets_through(finding):
            return finding
        return next((known for known in self.workspace.findings if table.lets_through(known)), None)

    def axis_key(self) -> Hashable:
        """Another finding is another picture."""
        finding = self.chosen()
        return super().axis_key(), None if finding is None else finding.id

    def gather(self, look: Look, panes: list[Pane]) -> None:
        """Curve and card are those of the chosen finding."""
        evidence, finding = self.query_one(EvidencePane), self.chosen()
        self.query_one(CardPane).finding = evidence.finding = finding
        if finding is not None:
            evidence.span = self.workspace.span_of(finding)
        super().gather(look, panes)

    def say(self, facts: Facts, *, has_steps: bool) -> None:
        """The list is as high as it needs, up to two fifths of the screen, where something stands below it."""
        table = self.query_one(FindingTable)
        is_above = self.has_class("-one-column") and not self.has_class("-no-second")
        has_curve = not self.has_class("-no-evidence")
        needed = min(max(len(table.rows) + 2, 4), self.size.height * 2 // 5)
        table.styles.height = needed if has_curve else "1fr"
        self.query_one(".major").styles.height = needed + CURVE * has_curve if is_above else "1fr"

    def cursor_columns(self) -> int:
        """Those of the curve, where there is one."""
        return self.query_one(EvidencePane).chart.dot_columns // 2 or super().cursor_columns()

    def action_severity(self) -> None:
        """Show all, warnings and worse, critical ones only."""
        self.query_one(FindingTable).next_severity()
        self.redraw()

    def action_family(self) -> None:
        """Show one family after the other."""
        self.query_one(FindingTable).next_family()
        self.redraw()

    def action_card(self) -> None:
        """The curves of the one that is marked in the list; where its card is not to be seen, that first."""
        if not self._choose():
            return
        if self.has_class("-no-second") or (finding := self.workspace.finding) is None:
            super().action_card()
        else:
            self.app.post_message(CardScreen.Curves(finding))

    def action_acknowledge(self) -> None:
        """Ask for a note on it."""
        if self._choose():
            super().action_acknowledge()

    def _choose(self) -> bool:
        """The one that is marked becomes the chosen one of all screens; whether there is one."""
        finding = self.chosen()
        if finding is not None and finding is not self.workspace.finding:
            self.workspace.pick(finding)
        return finding is not None
