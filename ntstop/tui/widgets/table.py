"""A pane with a table: a row is chosen, rows are sorted, and only what is in view is made."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from textual import events
from textual.app import ComposeResult

from ...text import count
from .. import bindings
from ..raster.picture import Picture
from ..raster.table import Cell, Column, draw_table
from .chart import PictureWidget
from .pane import Pane, Value, is_ascii, value
from .pointer import CursorMoved

Row = TypeVar("Row")


WHEEL = 3
"""Rows that a notch of the wheel goes."""


class TableRows(PictureWidget):
    """The rows on the screen, from the pane around them."""

    def __init__(self, pane: TablePane[Any]) -> None:
        super().__init__()
        self.pane = pane

    def draw(self, width: int, height: int) -> Picture:
        """The rows in view."""
        pane = self.pane
        return draw_table(
            pane.COLUMNS,
            len(pane.rows),
            lambda index: pane.cells(pane.rows[index]),
            width,
            height,
            top=pane.keep_in_view(height - 1),
            chosen=pane.place,
            sorted_by=pane.sorted_by,
            falling=pane.falling,
            empty=pane.empty,
            ascii_only=is_ascii(self.app),
        )

    def on_resize(self, event: events.Resize) -> None:
        """Other rows are to be seen than before, and the title says so."""
        self.pane.say_title()

    def on_click(self, event: events.Click) -> None:
        """Choose the row that was clicked; a second click opens it."""
        offset = event.get_content_offset(self)
        place = -1 if offset is None else self.pane.first_in_view + offset.y - 1
        if offset is not None and offset.y and place < len(self.pane.rows):
            self.pane.choose(place)
            if event.chain == 2:
                self.app.simulate_key("enter")


class TablePane(Pane, Generic[Row]):
    """Subclasses set `COLUMNS`, call `set_rows` in `present`, and say what a row's cells and sort keys are."""

    COLUMNS: ClassVar[tuple[Column, ...]] = ()
    BINDINGS: ClassVar = bindings.TABLE

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.table = TableRows(self)
        self.rows: Sequence[Row] = ()
        self.empty = ""
        """The words for no rows."""
        self.sorted_by: int | None = None
        """Index of a column; None: as the rows come."""
        self.falling = True
        self._chosen: Hashable = None
        self._place = 0
        self._top = 0
        self._given: Sequence[Row] = ()
        self._words: tuple[Sequence[Value], str, str, str] = ((), "", "", "")
        """What the title says, as it was given to `head`."""

    def body(self) -> ComposeResult:
        """The table."""
        yield self.table

    def cells(self, row: Row) -> Sequence[Cell]:
        """What stands in each column."""
        raise NotImplementedError

    def identity(self, row: Row) -> Hashable:
        """What a row is told by when the order changes."""
        raise NotImplementedError

    def sort_key(self, row: Row, column: int) -> Any:
        """What a column is sorted by; None goes last."""
        return None

    def chosen_changed(self) -> None:
        """Another row is the chosen one, by a key."""

    @property
    def place(self) -> int:
        """Index of the chosen row."""
        return self._place

    @property
    def chosen(self) -> Row | None:
        """The chosen row; None where there is none."""
        return self.rows[self._place] if self.rows else None

    @property
    def first_in_view(self) -> int:
        """Index of the row below the heading, as it was drawn last."""
        return self._top

    def wheel(self, notches: int) -> None:
        """Another row."""
        self.action_row(notches * WHEEL)

    def set_rows(self, rows: Sequence[Row]) -> None:
        """Show these rows in the order that is set; the chosen one stays chosen."""
        column, self._given = self.sorted_by, rows
        if column is not None:
            keyed = [(self.sort_key(row, column), row) for row in rows]
            known = sorted((pair for pair in keyed if pair[0] is not None), key=lambda p: p[0], reverse=self.falling)
            rows = [row for _, row in known] + [row for key, row in keyed if key is None]
        self.rows = rows
        names = [self.identity(row) for row in rows]
        self._place = names.index(self._chosen) if self._chosen in names else min(self._place, max(len(rows) - 1, 0))
        self.table.redraw()

    def head(self, values: Sequence[Value], note: str = "", aside: str = "", *, rows: str = "") -> None:
        """The same of a table: first how many `rows` there are, if that is to be said; and where it is scrolled, always
        which of them are to be seen."""
        self._words = values, note, aside, rows
        self.say_title()

    def say_title(self) -> None:
        """Say what `head` was given, for the rows that are in view now."""
        values, note, aside, rows = self._words
        height = self.table.size.height - 1
        if height > 0 and (top := self.keep_in_view(height)):
            last = min(top + height, len(self.rows))
            rows = f"{count(top + 1)}-{count(last)} of {rows or count(len(self.rows))}"
        super().head([value(rows), *values] if rows else values, note, aside)

    def keep_in_view(self, height: int) -> int:
        """First row in view, moved no further than the chosen one needs."""
        height = max(height, 1)
        self._top = min(max(self._top, self._place - height + 1), self._place, max(len(self.rows) - height, 0))
        return self._top

    def choose(self, place: int) -> None:
        """Choose the row at `place`, or the one at the end where there is none."""
        if not self.rows:
            return
        self._place = min(max(place, 0), len(self.rows) - 1)
        self._chosen = self.identity(self.rows[self._place])
        self.table.redraw()
        self.say_title()
        self.chosen_changed()

    def unchoose(self) -> None:
        """As at the beginning: the first row, whichever that is."""
        self._chosen, self._place = None, 0
        self.table.redraw()

    def action_row(self, offset: int) -> None:
        """The row above or below."""
        self.choose(self._place + offset)

    def action_page(self, offset: int) -> None:
        """A screenful up or down."""
        self.choose(self._place + offset * max(self.table.size.height - 2, 1))

    def action_end(self, place: int) -> None:
        """The first row, or the last (-1)."""
        self.choose(len(self.rows) - 1 if place < 0 else place)

    def action_sort(self) -> None:
        """Sort by the next column; after the last, as the rows come."""
        start = -1 if self.sorted_by is None else self.sorted_by
        self.sorted_by = start + 1 if start + 1 < len(self.COLUMNS) else None
        self.set_rows(self._given)
        self.say_title()

    def action_reverse(self) -> None:
        """Largest first, or smallest first."""
        self.falling = not self.falling
        self.set_rows(self._given)
        self.say_title()


class StepTable(TablePane[Row]):
    """A table of things that happened at a step: enter puts the cursor there."""

    BINDINGS: ClassVar = bindings.STEP_TABLE

    def step_of(self, row: Row) -> float | None:
        """Where a row stands on the step axis; None: nowhere."""
        raise NotImplementedError

    def action_show(self) -> None:
        """Put the cursor on the step of the chosen row."""
        step = None if self.chosen is None else self.step_of(self.chosen)
        if step is not None:
            self.post_message(CursorMoved(self, step))
