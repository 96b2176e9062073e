"""The card of the chosen finding as a pane of lines."""

from __future__ import annotations

from collections.abc import Sequence

from ...diagnosis import card
from ...diagnosis.finding import Finding
from ...diagnosis.report import reproduction_of
from ...diagnosis.reproduction import Reproduction
from ..raster.ink import Ink
from ..workspace import Look
from .lines import Entry, LinesPane


def card_entries(
    finding: Finding, how: Reproduction, note: str | None = None, *, has_ended: bool = False
) -> list[Entry]:
    """The title, what was said by who acknowledged it, then field by field."""
    entries = [Entry("finding", card.title(finding, has_ended=has_ended), Ink.STRONG)]
    if note is not None:
        entries.append(Entry("", card.acknowledged(note)))
    for heading, lines in card.fields_on_screen(finding, how):
        entries += [Entry("" if place else heading.lower(), line) for place, line in enumerate(lines)]
    return entries


class CardPane(LinesPane):
    """Follows the finding that the screen sets."""

    NAME = "card"
    HELP = (
        "What the chosen finding rests on, what it may come from, and the smallest change that the evidence supports."
    )

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.entries: Sequence[Entry] = ()
        self.shown: str | None = None
        self.finding: Finding | None = None

    def gather(self, look: Look) -> None:
        """The card, as it is now."""
        if (finding := self.finding) is None:
            self.entries = [Entry("", "no finding is chosen" if look.findings else "nothing found", Ink.DIM)]
            return
        if finding.id != self.shown:
            self.shown, self.lines.top = finding.id, 0
        note = look.session.kept.note(finding.id)
        how = reproduction_of(look.session.engine, finding)
        self.entries = card_entries(finding, how, note, has_ended=look.session.has_ended)

    def present(self) -> None:
        """Show it."""
        self.set_entries(self.entries)
