"""The runs of this machine, over the screen: look at another one, or lay it over those that are shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical

from ...removal import delete, size_of, why_not
from ...runlist import CELLS, Listed, RunList, gist_of
from ...sources.base import SourceError
from ...sparkline import spark
from ...text import clip, count, duration, number, rate, safe, size
from .. import bindings
from ..facts import GLYPHS
from ..raster.ink import Ink, line
from ..raster.labels import mark_of
from ..raster.picture import Picture
from ..raster.table import Cell, Column, draw_table
from ..styles.paint import glyphs_of
from ..widgets.chart import PictureWidget
from ..widgets.findings import INKS, WORDS
from ..widgets.pane import is_ascii
from ..workspace import Workspace
from .confirm import ConfirmScreen
from .dialog import Dialog

_LOOK = 0.5
"""Seconds between two looks at the list."""

COLUMNS = (
    Column("", 1, keep=9, right=False),
    Column("state", 10, keep=8, right=False),
    Column("run", 0, keep=9, least=16, right=False),
    Column("step", 9, keep=5),
    Column("loss", 7, keep=4),
    Column("curve", CELLS, keep=6, right=False),
    Column("rate", 8, keep=2),
    Column("age", 7, keep=3),
    Column("weightiest finding", 20, keep=7, right=False),
)


class RunRows(PictureWidget):
    """The list as it stands."""

    def __init__(self, workspace: Workspace, listed: RunList) -> None:
        super().__init__(id="run-rows")
        self.workspace, self.source = workspace, listed
        self.rows: Sequence[Listed] = ()
        self.chosen: Path | None = None
        self.top = self._place = 0

    @property
    def place(self) -> int:
        """Index of the chosen row; the run that is looked at, where none was chosen; of one that is gone its place."""
        path, last = self.chosen or self.workspace.session.path, max(len(self.rows) - 1, 0)
        self._place = next((at for at, row in enumerate(self.rows) if row.entry.path == path), min(self._place, last))
        return self._place

    def draw(self, width: int, height: int) -> Picture:
        """The rows in view."""
        place, room = self.place, max(height - 1, 1)
        self.top = min(max(self.top, place - room + 1, 0), place)
        return draw_table(
            COLUMNS,
            len(self.rows),
            lambda index: self.cells(self.rows[index]),
            width,
            height,
            top=self.top,
            chosen=place,
            empty=self.source.problem or ("no runs yet" if self.source.version else "looking for runs"),
            ascii_only=is_ascii(self.app),
        )

    def cells(self, row: Listed) -> list[Cell]:
        """What stands in each column."""
        entry, gist, plain = row.entry, row.gist, is_ascii(self.app)
        glyph, plain_glyph, ink = GLYPHS.get(entry.state, ("◌", "o", Ink.DIM))
        finding = Cell("", Ink.DIM)
        if gist is not None and gist.severity:
            sign, plain_sign, _ = WORDS[gist.severity]
            finding = Cell(f"{plain_sign if plain else sign} {gist.kind}", INKS[gist.severity])
        name = entry.id + (f"  {safe(entry.title)}" if entry.title else "")
        age = None if entry.started is None else max(0.0, time.time() - entry.started)
        return [
            self._sign(entry.path),
            Cell(f"{plain_glyph if plain else glyph} {entry.state}", ink),
            Cell(clip(entry.problem or name, 200), Ink.STRONG if entry.active else Ink.TEXT),
            Cell(count(entry.last_step)),
            Cell(number(entry.last_loss)),
            Cell(spark(gist.loss, CELLS, plain) if gist is not None else "", Ink.LINE_0),
            Cell(rate(entry.rate) if entry.active else ""),
            Cell(duration(age), Ink.DIM),
            finding,
        ]

    def _sign(self, path: Path) -> Cell:
        shown = next((shown for shown in self.workspace.runs if shown.session.path == path), None)
        if shown is None:
            return Cell("")
        if len(self.workspace.runs) == 1:
            return Cell("*" if is_ascii(self.app) else "●", Ink.STRONG)
        place = self.workspace.book.of(shown.name)
        return Cell(mark_of(place, glyphs_of(self.app)), line(place))

    def on_click(self, event: events.Click) -> None:
        """Choose the run that was clicked; a second click looks at it."""
        offset = event.get_content_offset(self)
        place = -1 if offset is None else self.top + offset.y - 1
        if offset is not None and offset.y and place < len(self.rows):
            self.chosen = self.rows[place].entry.path
            self.redraw()
            if event.chain == 2:
                self.app.simulate_key("enter")


class RunsScreen(Dialog[None]):
    """Drawn over the screen; it is live while it is open."""

    BINDINGS: ClassVar = bindings.RUNS
    TITLE = "runs"

    def __init__(self, workspace: Workspace) -> None:
        super().__init__()
        self.workspace = workspace
        self.source = RunList(workspace.session.renew)
        self.rows = RunRows(workspace, self.source)
        self._version = -1

    def compose(self) -> ComposeResult:
        """A frame with the rows in it."""
        with Vertical(id="runs") as frame:
            frame.border_title = "runs"
            frame.border_subtitle = self.frame_keys()
            yield self.rows

    def on_mount(self) -> None:
        """Begin to look."""
        self.source.start()
        self.set_interval(_LOOK, self.look)

    def on_unmount(self) -> None:
        """Look no more."""
        self.source.stop()

    def look(self) -> None:
        """Show what is new."""
        if self.source.version != self._version:
            self._version, self.rows.rows = self.source.version, [self._known(row) for row in self.source.listed]
            # Frame, heading, rows, and some to spare: a list of three needs no screen.
            self.query_one("#runs").styles.height = max(len(self.rows.rows) + 5, 12)
            self.rows.redraw()

    def _known(self, row: Listed) -> Listed:
        """With what is known of a run that is shown: it may be too long to be read for the list."""
        shown = next((one.session for one in self.workspace.runs if one.session.path == row.entry.path), None)
        if row.gist is not None or shown is None:
            return row
        with shown.lock:
            return Listed(row.entry, gist_of(shown))

    def on_mouse_scroll_up(self) -> None:
        """Another run."""
        self.action_row(-1)

    def on_mouse_scroll_down(self) -> None:
        """Another run."""
        self.action_row(1)

    def action_row(self, offset: int) -> None:
        """Another run."""
        rows = self.rows.rows
        if rows:
            place = min(max(self.rows.place + offset, 0), len(rows) - 1)
            self.rows.chosen = rows[place].entry.path
            self.rows.redraw()

    def action_switch(self) -> None:
        """Look at the chosen run instead of those that are shown."""
        if self.rows.rows:
            entry = self.rows.rows[self.rows.place].entry
            if self._tried(lambda: self.workspace.switch(entry.path)):
                self.app.pop_screen()

    def action_overlay(self) -> None:
        """Lay the chosen run over those that are shown, or no longer."""
        if self.rows.rows:
            entry = self.rows.rows[self.rows.place].entry
            self._tried(lambda: self.workspace.toggle(entry.path))
            self.rows.redraw()

    def action_remove(self) -> None:
        """Remove the recording of the chosen run, where it has ended and somebody says yes."""
        if not self.rows.rows:
            return
        entry = self.rows.rows[self.rows.place].entry
        if why := why_not(entry):
            self.app.notify(f"{entry.id} is not removed: {why}", timeout=4)
            return
        name = f"{entry.id} ({entry.title})" if entry.title else entry.id

        def remove(agreed: bool | None) -> None:
            if agreed:
                self._tried(lambda: delete(entry.path))

        question = f"Its recording, {size(size_of(entry.path))}, and the notes on it cannot be had back."
        self.app.push_screen(ConfirmScreen(f"remove {name}?", question), remove)

    def _tried(self, act: Callable[[], str]) -> bool:
        try:
            why = act()
        except (SourceError, OSError) as error:
            why = str(error)
        if why:
            self.app.notify(why, timeout=4)
        return not why
