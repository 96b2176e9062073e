"""The strip of findings: the weightiest first, one line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.message import Message

from ...diagnosis.finding import Finding
from ...text import cell_width, clip, count
from .. import bindings
from ..raster.ink import Ink
from ..raster.picture import Picture
from .chart import PictureWidget
from .lines import wrapped
from .pane import Pane, is_ascii, plain_if, value

WORDS = {"critical": ("✖", "x", "CRIT"), "warning": ("▲", "!", "WARN"), "info": ("○", "o", "INFO")}
"""Glyph, glyph in ASCII, word."""
NO_NOTES: Mapping[str, str] = {}
INKS = {"critical": Ink.CRITICAL, "warning": Ink.WARNING, "info": Ink.INFO}


def draw_findings(
    findings: Sequence[Finding],
    selected: int,
    width: int,
    height: int,
    *,
    nothing: str = "",
    ascii_only: bool = False,
    notes: Mapping[str, str] = NO_NOTES,
) -> Picture:
    """A row for each finding around the selected one, or the words for `nothing`; see `laid_out`.

    `notes`: what was said about those that somebody has acknowledged, by their ids.
    """
    picture = Picture.blank(width, height)
    if not findings:
        picture.write(0, 2, clip(nothing, width - 3), Ink.DIM)
        return plain_if(ascii_only, picture)
    kind_end, since, text_start = _columns(findings, width)
    before = -1
    for row, (place, line) in enumerate(laid_out(findings, selected, width, height, notes)):
        finding = findings[place]
        is_over = bool(standing(finding, notes))
        picture.write(row, text_start, line, Ink.DIM if is_over else Ink.TEXT)
        if place == before:
            continue
        before = place
        ink = Ink.DIM if is_over else Ink.STRONG if place == selected else Ink.TEXT
        _draw_severity(picture, row, finding, place == selected, ascii_only, notes)
        picture.write(row, 10, _name(finding), ink)
        picture.write(row, picture.write(row, kind_end, since, Ink.DIM), count(finding.first_step), ink)
    return plain_if(ascii_only, picture)


def laid_out(
    findings: Sequence[Finding], selected: int, width: int, height: int, notes: Mapping[str, str] = NO_NOTES
) -> list[tuple[int, str]]:
    """(index of a finding, what is said of it) for each row that is taken.

    Where rows are left over a long text goes on in the next: first that of the selected finding, then from the top.
    """
    top = first_in_view(len(findings), selected, height)
    shown = range(top, min(top + height, len(findings)))
    room = max(width - _columns(findings, width)[2] - 1, 8)
    spare = height - len(shown)
    lines: dict[int, list[str]] = {}
    for place in sorted(shown, key=lambda place: (place != selected, place)):
        parts = wrapped(said(findings[place], notes), room)
        kept, rest = parts[: spare + 1], parts[spare + 1 :]
        if rest:
            kept[-1] = clip(" ".join([kept[-1], *rest]), room)
        spare -= len(kept) - 1
        lines[place] = kept
    return [(place, line) for place in shown for line in lines[place]]


def _columns(findings: Sequence[Finding], width: int) -> tuple[int, str, int]:
    """Where "since" stands, that word or its sign where there is little room, and where the text begins."""
    kind_end = 10 + max(cell_width(_name(finding)) for finding in findings) + 2
    since = "since " if width >= 90 else "@"
    return kind_end, since, kind_end + len(since) + max(len(count(finding.first_step)) for finding in findings) + 2


def _name(finding: Finding) -> str:
    return finding.kind if finding.rank is None else f"{finding.kind} r{finding.rank}"


def first_in_view(total: int, selected: int, height: int) -> int:
    """Index of the finding in the first row."""
    return min(max(0, selected - height + 1), max(0, total - height))


def said(finding: Finding, notes: Mapping[str, str]) -> str:
    """The symptom, behind the note of who acknowledged it."""
    note = notes.get(finding.id)
    return f"{note} · {finding.symptom}" if note else finding.symptom


def standing(finding: Finding, notes: Mapping[str, str]) -> str:
    """The word of a finding that asks for nothing any more, else ""."""
    return "ENDED" if finding.status == "resolved" else "ACK" if finding.id in notes else ""


def _draw_severity(
    picture: Picture, row: int, finding: Finding, is_selected: bool, ascii_only: bool, notes: Mapping[str, str]
) -> None:
    glyph, plain_glyph, word = WORDS[finding.severity]
    is_over = standing(finding, notes)
    if is_selected:
        picture.write(row, 0, ">" if ascii_only else "▸", Ink.STRONG)
    ink = Ink.DIM if is_over else INKS[finding.severity]
    picture.write(row, 2, f"{plain_glyph if ascii_only else glyph} {is_over or word}", ink)


class FindingRows(PictureWidget):
    """The rows on the screen."""

    class Chosen(Message):
        """A row was clicked: the finding that stands there; `opened` with the second click."""

        def __init__(self, finding: Finding, opened: bool) -> None:
            super().__init__()
            self.finding = finding
            self.opened = opened

    findings: Sequence[Finding] = ()
    selected = 0
    nothing = ""
    notes: Mapping[str, str] = NO_NOTES

    def draw(self, width: int, height: int) -> Picture:
        """The rows as they stand."""
        return draw_findings(
            self.findings,
            self.selected,
            width,
            height,
            nothing=self.nothing,
            ascii_only=is_ascii(self.app),
            notes=self.notes,
        )

    def on_click(self, event: events.Click) -> None:
        """Choose the row that was clicked."""
        offset = event.get_content_offset(self)
        if offset is not None:
            rows = laid_out(self.findings, self.selected, *self.size, self.notes) if self.findings else []
            if offset.y < len(rows):
                self.post_message(self.Chosen(self.findings[rows[offset.y][0]], event.chain == 2))


class FindingsPane(Pane):
    """All findings of the run, as the engine orders them."""

    NAME = "findings"
    HELP = (
        "What is wrong, the weightiest first. ENDED: it is so no more. ACK: acknowledged. What is chosen has a card "
        "with the evidence."
    )
    BINDINGS: ClassVar = bindings.FINDINGS

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.rows = FindingRows()
        self.note = self.output = ""

    def body(self) -> ComposeResult:
        """The rows."""
        yield self.rows

    def set(
        self,
        findings: Sequence[Finding],
        selected: int,
        nothing: str,
        note: str = "",
        output: str = "",
        notes: Mapping[str, str] = NO_NOTES,
    ) -> None:
        """Show `findings`, one of them selected.

        `nothing`: the words for none; `note`: what the state of the run rests on; `output`: where the job writes;
        `notes`: what was said about those that are acknowledged.
        """
        self.note, self.output, self.rows.notes = note, output, notes
        self.rows.findings, self.rows.selected, self.rows.nothing = findings, selected, nothing
        self.refresh_rows()

    def wheel(self, notches: int) -> None:
        """Another finding."""
        place = min(max(self.rows.selected + notches, 0), len(self.rows.findings) - 1)
        if self.rows.findings and place != self.rows.selected:
            self.post_message(FindingRows.Chosen(self.rows.findings[place], False))

    def refresh_rows(self) -> None:
        """Rows, and in the title how many there are when not all are to be seen."""
        total = len(self.rows.findings)
        hidden = total > self.rows.size.height
        values = [value(f"{self.rows.selected + 1} of {total}", Ink.TEXT)] if total and hidden else []
        if self.output:
            values.append(value(clip(self.output, 50, left=True), Ink.DIM, key="output", key_ink=Ink.DIM))
        self.head(values, self.note)
        self.rows.redraw()
