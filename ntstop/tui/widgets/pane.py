"""A pane: a ruled title line with the values of the moment, and what stands under it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from textual import events
from textual.app import App, ComposeResult
from textual.containers import Vertical

from ...session import Session
from ...text import cell_width, clip, count, safe
from ..keymap import PLAIN_KEYS, Keymap
from ..raster.ink import Ink
from ..raster.picture import Picture
from ..raster.spec import Glyphs
from ..reading import Reading
from ..styles.paint import glyphs_of
from ..view import StepView
from ..workspace import Look
from .chart import PictureWidget

SHORT, SHORTEST = 8, 5
"""Cells that the name of a curve keeps in a title without room: beside other values, and at the worst."""
MOST_RUN = 16
"""Cells that the name of a run takes in a title."""
Value = tuple[tuple[str, Ink], ...]
"""What a title says of one thing: pieces of text with their inks, a blank between them."""


def value(text: str, ink: Ink = Ink.STRONG, *, key: str = "", key_ink: Ink = Ink.TEXT) -> Value:
    """A value with, before it, what it is of."""
    return ((key, key_ink), (text, ink)) if key else ((text, ink),)


class Name(str):
    """A piece of a value: what a line of the chart is of. It may be cut, and stays while the line is drawn."""


class Dated(tuple[tuple[str, Ink], ...]):
    """A value with its own step behind it, where that is not the step it is told at, or with what it is the mean of."""

    short: Value
    """Without that, and dim instead where it is of another step: where there is no room for it."""

    def __new__(cls, pieces: Value, short: Value) -> Dated:
        """`pieces` with what stands behind, and `short` without."""
        made = super().__new__(cls, pieces)
        made.short = short
        return made


def dated(reading: Reading, text: str, ink: Ink = Ink.STRONG, *, before: Value = ()) -> Value:
    """A reading, told as `text` after the pieces `before`, and behind it the step that it is of where that is another.

    What lies further back than its curve does as a rule is dim.
    """
    plain = (*before, (text, Ink.DIM if reading.is_stale else ink))
    if not (since := reading.since):
        return plain
    return Dated((*plain, (since, Ink.DIM)), (*before, (text, Ink.DIM if reading.is_behind else ink)))


def fitting_values(values: Sequence[Value], room: int, least: int = 1) -> list[Value]:
    """The values in so many cells: all lose their steps, then of their names what must be, before the last is left
    out, down to `least` of them."""
    if value_cells(values) <= room:
        return list(values)
    kept = short = _without_steps(values)
    keys = max(keys_among(values), least)
    tried = [(many, SHORT) for many in range(len(short), keys, -1)]
    for many, shortest in [*tried, (keys, SHORT), *((many, SHORTEST) for many in range(keys, least - 1, -1))]:
        kept = _with_names_cut(short[:many], room, shortest)
        if value_cells(kept) <= room:
            break
    return kept


def _without_steps(values: Sequence[Value]) -> list[Value]:
    return [one.short if isinstance(one, Dated) else one for one in values]


def keys_among(values: Sequence[Value]) -> int:
    """How many of the values, from the first, hold all that have a `Name`."""
    return max(
        (place for place, one in enumerate(values, 1) if any(isinstance(text, Name) for text, _ in one)), default=0
    )


def _with_names_cut(values: Sequence[Value], room: int, shortest: int) -> list[Value]:
    """The longest names lose cells until the values fit, or none is longer than `shortest`."""
    kept = list(values)
    longest = max((cell_width(text) for one in kept for text, _ in one if isinstance(text, Name)), default=0)
    while longest > shortest and value_cells(kept) > room:
        longest -= 1
        kept = [
            tuple((Name(clip(text, longest, left=True)) if isinstance(text, Name) else text, ink) for text, ink in one)
            for one in kept
        ]
    return kept


def value_cells(values: Sequence[Value]) -> int:
    """Cells that values take, with a blank before each piece and one more between values."""
    return sum(_width(text) + 1 for pieces in values for text, _ in pieces) + len(values)


def _width(text: str) -> int:
    """Cells of a piece; blanks in front, which put a number in its column, are drawn as they are."""
    bare = text.lstrip(" ")
    return len(text) - len(bare) + cell_width(safe(bare))


def is_ascii(app: App[Any]) -> bool:
    """Whether the terminal draws nothing but ASCII."""
    return glyphs_of(app) is Glyphs.ASCII


def plain_if(ascii_only: bool, picture: Picture) -> Picture:
    """`picture`, in nothing but ASCII where that is asked for."""
    if ascii_only:
        picture.make_ascii()
    return picture


def draw_title(
    name: str,
    values: Sequence[Value],
    width: int,
    *,
    focused: bool = False,
    note: str = "",
    aside: str = "",
    ascii_only: bool = False,
) -> Picture:
    """`── name note ───────── values ──`; the focused pane is marked by a glyph and a lighter line.

    Where there is no room, `aside`, which stands behind the note, goes before all else; then the steps behind values,
    then the last values, then the note, what stands last in it first, then the first value. Values with a `Name` are
    the key to the chart: their names are cut, and the note goes, before one of them does; but of the note all that
    stands behind the first goes before a name is cut below `SHORT`.
    """
    line, mark = ("-", ">") if ascii_only else ("─", "▸")
    picture = Picture.blank(width, 1)
    if not width:
        return picture
    rule = Ink.DIM if focused else Ink.AXIS
    picture.write(0, 0, line * width, rule)
    column = picture.write(0, 1, (mark if focused else line) + " ", Ink.STRONG if focused else rule)
    column = picture.write(0, column, name + " ", Ink.STRONG if focused else Ink.TEXT)
    room = width - 3 - column
    if note and aside and cell_width(safe(f"{note}, {aside} ")) + value_cells(values) <= room:
        note = f"{note}, {aside}"
    note = _note_beside(values, note, room)
    said = _said(note)
    kept = fitting_values(values, room - said)
    if said and said + value_cells(kept) <= room:
        picture.write(0, column, note + " ", Ink.DIM)
    if kept and value_cells(kept) <= room:
        column = width - 2 - value_cells(kept)
        for pieces in kept:
            column = picture.write(0, column, " ")
            for text, ink in pieces:
                if text.isspace():
                    # Room that is kept for a step: the rule stays.
                    column = picture.write(0, column, " " + line * len(text), rule)
                else:
                    column = picture.write(0, picture.write(0, column, " "), text, ink)
        if not kept[-1][-1][0].isspace():
            picture.write(0, column, " ")
    return plain_if(ascii_only, picture)


def _said(note: str) -> int:
    """Cells of the note, with the blank behind it."""
    return cell_width(safe(note)) + 1 if note else 0


def _note_beside(values: Sequence[Value], note: str, room: int) -> str:
    """As much of the note as leaves room for the key to the chart, else for the first value."""
    keys = keys_among(values)
    first = _without_steps(values)[: max(keys, 1)]
    parts = note.split(", ")
    shorter = [", ".join(parts[:end]) for end in range(len(parts), 0, -1)]
    # What stands behind in the note goes before a name can hardly be read.
    tried = [(one, SHORT) for one in shorter] + [(one, SHORTEST) for one in ([*shorter, ""] if keys else shorter)]
    for one, shortest in tried:
        left = room - _said(one)
        if value_cells(_with_names_cut(first, left, shortest)) <= left:
            return one
    return shorter[-1]


class PaneTitle(PictureWidget):
    """The title line on the screen."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.label = name
        self.values: Sequence[Value] = ()
        self.note = self.aside = ""
        self.marked = False

    def say(self, label: str, values: Sequence[Value], note: str, aside: str) -> None:
        """What it says from now on; most often that is what it says already."""
        if (label, values, note, aside) != (self.label, self.values, self.note, self.aside):
            self.label, self.values, self.note, self.aside = label, values, note, aside
            self.redraw()

    def draw(self, width: int, height: int) -> Picture:
        """The line as it stands."""
        return draw_title(
            self.label,
            self.values,
            width,
            focused=self.marked,
            note=self.note,
            aside=self.aside,
            ascii_only=is_ascii(self.app),
        )


class Pane(Vertical, can_focus=True):
    """One pane of a screen. Subclasses name it, say how it is read, and yield its body."""

    NAME: ClassVar[str] = ""
    HELP: ClassVar[str] = ""
    OF_ALL_RUNS: ClassVar[bool] = False
    """It shows all runs that are open; others show the first, and say so."""

    def __init__(self, *, id: str | None = None, called: str = "") -> None:
        super().__init__(id=id)
        self.called = called or self.NAME
        """The name in the title."""
        self.run_name = ""
        """Whose run is shown, where there are several."""
        self.stride = 1.0
        """Steps that a key moves the cursor by."""
        self.owes = False
        """Whether what a key has changed was put off: the next turn is this pane's."""
        self._session: Callable[[], Session | None] = lambda: None
        """Whose run was looked at last; not kept alive."""
        self.title_line = PaneTitle(self.called)

    def is_another_run(self, look: Look) -> bool:
        """Whether this looks at another run than the last did: what was kept of that one is to be forgotten."""
        is_other = self._session() is not look.session
        self._session = weakref.ref(look.session)
        return is_other

    def compose(self) -> ComposeResult:
        """The title line, then the body."""
        yield self.title_line
        yield from self.body()

    def body(self) -> ComposeResult:
        """What stands under the title."""
        yield from ()

    def gather(self, look: Look) -> None:
        """Copy what is to be drawn. The sessions are locked: copy, do not draw, and keep nothing of `look`."""

    def present(self) -> None:
        """Draw what was gathered."""

    def how_far(self, view: StepView) -> str:
        """How far the keys move the cursor, where there is one and that is more than a step: `←→ 25`."""
        keymap: Keymap = getattr(self.app, "keymap", PLAIN_KEYS)
        is_far = view.cursor is not None and round(self.stride) > 1
        return f"{keymap.keys_of('cursor-left')} {count(round(self.stride))}" if is_far else ""

    def head(self, values: Sequence[Value], note: str = "", aside: str = "") -> None:
        """Set what the title says: `values` from the right, most important first; `note` beside the name.

        `aside`: more of the note, where there is room beside all values.
        """
        of = f" of {clip(self.run_name, MOST_RUN)}" if self.run_name and not self.OF_ALL_RUNS else ""
        self.title_line.say(self.called + of, values, note, aside)

    def wheel(self, notches: int) -> None:
        """The wheel was turned, down with a positive number, where it does not zoom."""

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Up."""
        event.stop()
        self.wheel(-1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Down."""
        event.stop()
        self.wheel(1)

    def on_focus(self, event: events.Focus) -> None:
        """Mark the title."""
        self.title_line.marked = True
        self.title_line.redraw()

    def on_blur(self, event: events.Blur) -> None:
        """Unmark the title."""
        self.title_line.marked = False
        self.title_line.redraw()
