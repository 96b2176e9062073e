"""Everything that was found, with the card of the chosen one beside it where there is room."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Container

from .. import bindings
from ..facts import Facts
from ..widgets.card import CardPane
from ..widgets.finding_table import FindingTable
from .base import RunScreen


class FindingsScreen(RunScreen):
    """The list and the card."""

    TITLE = "findings"
    BINDINGS: ClassVar = bindings.FINDINGS_SCREEN

    def body(self) -> ComposeResult:
        """List, card."""
        with Container(classes="major"):
            yield FindingTable(id="all-findings")
        with Container(classes="minor"):
            yield CardPane(id="card")

    def layout_classes(self, width: int, height: int) -> dict[str, bool]:
        """The card goes below, and away on a very short terminal, where enter opens it."""
        is_wide = width >= 150
        return {"-one-column": not is_wide, "-no-second": not is_wide and height < 16}

    def say(self, facts: Facts, *, has_steps: bool) -> None:
        """Above the card the list is as high as it needs, up to two fifths of the screen."""
        is_above = self.has_class("-one-column") and not self.has_class("-no-second")
        needed = len(self.query_one(FindingTable).rows) + 2
        self.query_one(".major").styles.height = min(max(needed, 4), self.size.height * 2 // 5) if is_above else "1fr"

    def action_severity(self) -> None:
        """Show all, warnings and worse, critical ones only."""
        self.query_one(FindingTable).next_severity()
        self.redraw()

    def action_family(self) -> None:
        """Show one family after the other."""
        self.query_one(FindingTable).next_family()
        self.redraw()
