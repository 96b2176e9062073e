"""Every curve of the run, and of the runs it is compared with: a grid of charts, one of them large at wish."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.widgets import Input

from .. import bindings
from ..choice import MOST_OVERLAID
from ..traces import named_in
from ..widgets.curves import CurvesPane
from ..widgets.entry import Entry
from ..workspace import Workspace
from .base import RunScreen


class CurvesScreen(RunScreen):
    """One pane, and a line to type a filter into."""

    TITLE = "curves"
    BINDINGS: ClassVar = bindings.CURVES
    TURNS = ("curves",)

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self.pane = CurvesPane(workspace.book, id="curves")
        # Who opens several runs wants to see first of all whose loss is lower.
        self.pane.choice.is_large = len(workspace.runs) > 1
        self.filter = Entry(id="filter", placeholder="words of a name", compact=True)

    def body(self) -> ComposeResult:
        """The charts."""
        yield self.pane

    def foot(self) -> ComposeResult:
        """The filter, while it is typed."""
        yield self.filter

    def cursor_columns(self) -> int:
        """Those of one chart."""
        return self.pane.grid.dot_columns(0, self.pane.grid.geometry) // 2

    def step_of(self, place: float) -> float:
        """On whichever axis."""
        return place if self.pane.frame is None else self.pane.frame.step_at(place)

    def on_click(self, event: events.Click) -> None:
        """Choose the chart that was clicked."""
        grid = self.pane.grid
        if event.widget is grid and (offset := event.get_content_offset(grid)) is not None:
            place = grid.place_at(offset.x, offset.y)
            if place is not None:
                self.pane.choice.chosen = grid.cells[place].name
                self.redraw()

    def show_one_of(self, names: Sequence[str | None]) -> None:
        """Choose the first of these curves that there is."""
        with self.workspace.locked():
            process = self.workspace.session.state.primary
            known = set(process.series) if process else set()
        found = named_in(names, known)
        if found is not None:
            self.filter.value = ""
            self.pane.set_filter("")
            self.pane.choice.chosen = found
        if self.is_mounted:
            self.redraw()

    def action_choose(self, offset: int) -> None:
        """Another curve."""
        self.pane.choice.move(offset, self.pane.shown)
        self.redraw()

    def action_page(self, pages: int) -> None:
        """A screen further."""
        self.pane.turn(pages)
        self.redraw()

    def action_enlarge(self) -> None:
        """Large, or small again."""
        self.pane.choice.is_large = not self.pane.choice.is_large
        self.redraw()

    def action_overlay(self) -> None:
        """Lay the chosen curve over the others, or no longer."""
        if not self.pane.choice.overlay():
            self.app.notify(f"{MOST_OVERLAID} curves in one chart at most", timeout=3)
        self.redraw()

    def action_overlay_none(self) -> None:
        """Nothing laid over."""
        self.pane.choice.overlaid.clear()
        self.redraw()

    def action_axis(self) -> None:
        """Steps, time, tokens."""
        with self.workspace.locked():
            look = self.workspace.look()
            found = self.pane.next_axis(look) if look is not None else None
        if found is None:
            self.app.notify("neither times nor tokens were measured", timeout=3)
        self.redraw()

    def action_difference(self) -> None:
        """Each run less the first."""
        if len(self.workspace.runs) < 2:
            self.app.notify("a difference needs two runs: ntstop A B", timeout=3)
            return
        self.pane.is_difference = not self.pane.is_difference
        self.redraw()

    def action_order(self) -> None:
        """The next order."""
        self.pane.choice.next_order()
        self.redraw()

    def action_reverse(self) -> None:
        """The other way round."""
        self.pane.choice.is_reversed = not self.pane.choice.is_reversed
        self.redraw()

    def action_pin(self) -> None:
        """Before all others, or no longer."""
        self.pane.choice.pin()
        self.redraw()

    def action_filter(self) -> None:
        """Type words; those from before are selected, and go with the first letter."""
        self.add_class("-filtering")
        self.set_focus(self.filter)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter as it is typed."""
        self.pane.set_filter(event.value)
        self.redraw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Done."""
        self._end_filter()
        self.filter.answered()

    def action_back(self) -> None:
        """One layer out: the filter that is being typed, the large chart, the filter, then as everywhere."""
        if self.has_class("-filtering"):
            self.filter.value = ""
            self._end_filter()
        elif self.pane.choice.is_large and self.pane.shown:
            self.action_enlarge()
        elif self.pane.choice.filter:
            self.filter.value = ""
        else:
            super().action_back()

    def _end_filter(self) -> None:
        self.remove_class("-filtering")
        # At once: the next key is for the curves already.
        self.set_focus(self.pane)
