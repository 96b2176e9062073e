"""A pane of lines: a name and what it is, under headings; it scrolls where they do not fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult

from ...text import cell_width, clip, safe
from .. import bindings
from ..raster.ink import Ink
from ..raster.picture import Picture
from .chart import PictureWidget
from .pane import Pane, is_ascii, plain_if, value

WHEEL = 3
"""Lines that a notch of the wheel goes."""
LABEL = 14
"""Cells of the names."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One name and what it is; without a text a heading. Long texts go on below, under their beginning."""

    label: str
    text: str = ""
    ink: Ink = Ink.TEXT


def wrapped(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` cells, broken between words where it can be."""
    lines = [""]
    for word in safe(text).split(" "):
        while cell_width(word) > width > 0:
            # A wide character takes its two cells also where there is one.
            head = clip(word, width, ellipsis="") or word[0]
            lines.append(head)
            word = word[len(head) :]
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_width(joined) <= width:
            lines[-1] = joined
        else:
            lines.append(word)
    return [line for line in lines if line] or [""]


def laid_out(entries: Sequence[Entry], width: int) -> list[tuple[str, str, Ink]]:
    """(label, text, ink) of each line."""
    lines = []
    for entry in entries:
        if not entry.text:
            lines.append((entry.label, "", Ink.STRONG))
            continue
        for place, part in enumerate(wrapped(entry.text, max(width - LABEL - 3, 8))):
            lines.append(("" if place else entry.label, part, entry.ink))
    return lines


class LineRows(PictureWidget):
    """The lines on the screen."""

    entries: Sequence[Entry] = ()
    top = 0
    total = 0

    def draw(self, width: int, height: int) -> Picture:
        """The lines in view."""
        picture = Picture.blank(width, height)
        lines = laid_out(self.entries, width)
        self.total = len(lines)
        self.top = min(max(self.top, 0), max(self.total - height, 0))
        for row, (label, text, ink) in enumerate(lines[self.top : self.top + height]):
            if ink is Ink.STRONG and not text:
                picture.write(row, 1, label, Ink.STRONG)
            else:
                picture.write(row, 1, clip(label, LABEL), Ink.DIM)
                picture.write(row, LABEL + 2, text, ink)
        return plain_if(is_ascii(self.app), picture)


class LinesPane(Pane):
    """Subclasses set what the lines are by `set_entries` in `present`."""

    BINDINGS: ClassVar = bindings.LINES

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.lines = LineRows()
        self._note = ""

    def body(self) -> ComposeResult:
        """The lines."""
        yield self.lines

    def set_entries(self, entries: Sequence[Entry], note: str = "") -> None:
        """Show these lines; the title says where in them one is, when not all are to be seen."""
        self.lines.entries, self._note = entries, note
        self._show()

    def on_resize(self) -> None:
        """Other lines are to be seen than before, and the title says so."""
        self.call_after_refresh(self._show)

    def _show(self) -> None:
        self.lines.redraw()
        hidden = self.lines.total > self.lines.size.height > 0
        last = min(self.lines.top + self.lines.size.height, self.lines.total)
        self.head([value(f"{self.lines.top + 1}-{last} of {self.lines.total}", Ink.TEXT)] if hidden else [], self._note)

    def wheel(self, notches: int) -> None:
        """Up or down."""
        self.action_scroll_lines(notches * WHEEL)

    def action_scroll_lines(self, offset: int) -> None:
        """Up or down."""
        self.lines.top += offset
        self.set_entries(self.lines.entries, self.title_line.note)
