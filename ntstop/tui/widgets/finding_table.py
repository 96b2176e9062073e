"""All findings as a table, filtered by severity and family."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from ...diagnosis.catalogue import KINDS
from ...diagnosis.finding import WEIGHT, Finding, Severity
from ...text import count
from ..raster.ink import Ink
from ..raster.table import Cell, Column
from ..workspace import Look, Workspace
from .findings import INKS, NO_NOTES, WORDS, said, standing
from .pane import is_ascii
from .pointer import CursorMoved
from .table import TablePane

SEVERITIES: tuple[Severity, ...] = ("info", "warning", "critical")
"""The least that is shown, as the key goes through them."""


def family_of(finding: Finding) -> str:
    """The family of its kind, "other" where the catalogue does not name it."""
    known = KINDS.get(finding.kind)
    return known.family if known is not None else "other"


class FindingTable(TablePane[Finding]):
    """One line a finding. The chosen one is the chosen one of all screens."""

    NAME = "findings"
    HELP = "What is wrong, the weightiest first. ENDED: it is so no more. ACK: acknowledged. What is chosen has a card."
    COLUMNS = (
        Column("", 7, keep=9, right=False),
        Column("kind", 22, keep=8, right=False),
        Column("rank", 4, keep=2),
        Column("since", 9, keep=7),
        Column("last", 9, keep=3),
        Column("where", 20, keep=4, right=False, tail=True),
        Column("what is seen", keep=6, least=44, shrunk=20, right=False),
    )

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.severity = 0
        self.family: str | None = None
        self.found: Sequence[Finding] = ()
        self.workspace: Workspace | None = None

    def on_mount(self) -> None:
        """The workspace is the screen's."""
        self.workspace = getattr(self.screen, "workspace", None)

    def gather(self, look: Look) -> None:
        """Copies of all findings."""
        self.found = look.findings

    def present(self) -> None:
        """Those that the filters let through."""
        least = SEVERITIES[self.severity]
        shown = [finding for finding in self.found if self.lets_through(finding)]
        self.empty = "nothing found" if not self.found else "nothing that the filter lets through"
        if self.workspace is not None and self.workspace.finding is not None:
            self._chosen = self.workspace.finding.id
        self.set_rows(shown)
        filters = [f"{least} or worse" if least == "warning" else least] if self.severity else []
        filters += [self.family] if self.family else []
        hidden = len(self.found) - len(shown)
        note = ", ".join(filters) + (f"; {count(hidden)} hidden" if hidden else "")
        self.head([], note, rows=count(len(shown)) if shown else "")

    def lets_through(self, finding: Finding) -> bool:
        """Whether the filters do not hide it."""
        is_heavy = WEIGHT[finding.severity] >= WEIGHT[SEVERITIES[self.severity]]
        return is_heavy and (self.family is None or family_of(finding) == self.family)

    def next_severity(self) -> None:
        """All, warning or worse, critical."""
        self.severity = (self.severity + 1) % len(SEVERITIES)

    def next_family(self) -> None:
        """All, then one family that has findings after the other."""
        families = [None, *sorted({family_of(finding) for finding in self.found})]
        place = families.index(self.family) if self.family in families else 0
        self.family = families[(place + 1) % len(families)]

    def cells(self, row: Finding) -> Sequence[Cell]:
        """Severity, kind, where and since when, what."""
        glyph, plain, word = WORDS[row.severity]
        notes = self.workspace.notes if self.workspace is not None else NO_NOTES
        over = standing(row, notes)
        ink = Ink.DIM if over else Ink.TEXT
        return (
            Cell(
                f"{plain if is_ascii(self.app) else glyph} {over or word}",
                ink if over else INKS[row.severity],
            ),
            Cell(row.kind, ink),
            Cell("" if row.rank is None else str(row.rank), ink),
            Cell(count(row.first_step), ink),
            Cell(count(row.last_step), Ink.DIM),
            Cell(row.where, ink),
            Cell(said(row, notes), ink),
        )

    def identity(self, row: Finding) -> Hashable:
        """The id of the finding."""
        return row.id

    def sort_key(self, row: Finding, column: int) -> Any:
        """By what stands in the column; severity by weight."""
        keys = (WEIGHT[row.severity], row.kind, row.rank, row.first_step, row.last_step, row.where, row.symptom)
        return keys[column]

    def chosen_changed(self) -> None:
        """The chosen finding of all screens, with the cursor where it began."""
        if self.workspace is not None and self.chosen is not None:
            self.workspace.pick(self.chosen)
            self.post_message(CursorMoved(self, self.chosen.first_step))
