"""All ranks of a run: who lags, who waits, who holds how much memory."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Container

from ..facts import Facts
from ..widgets.rank_map import RankMapPane
from ..widgets.ranks import RanksPane
from ..workspace import Workspace
from .base import RunScreen

LEAST_OF_MAP, MOST_OF_MAP = 8, 24
"""Rows of the steps."""
HIGH = 26
"""Rows from which on ranks may be left out of view for them."""


class RanksScreen(RunScreen):
    """A line a rank, and the step time of all over the steps."""

    TITLE = "ranks"
    TURNS = ("ranks", "", "", "", "rank-map", "", "", "")

    @classmethod
    def hidden_why(cls, workspace: Workspace) -> str:
        """One rank has no peers."""
        session = workspace.session
        with session.lock:
            ranks = session.state.ranks
            # The first that is read tells how many are to come.
            told = (process.hello.world or 1 for process in ranks.values() if process.hello is not None)
            count = max(len(ranks), 1 if session.is_read else max(told, default=1))
        return "" if count > 1 else "the run has one rank"

    def body(self) -> ComposeResult:
        """The table above the map."""
        with Container(classes="stacked"):
            yield RanksPane(id="ranks")
            yield RankMapPane(id="rank-map")

    def say(self, facts: Facts, *, has_steps: bool) -> None:
        """The table is as high as it needs, up to three fifths; below it the steps, where there is room for them."""
        height = self.query_one("#body").size.height
        needed = len(self.query_one(RanksPane).rows) + 2
        table = min(needed, max(height * 3 // 5, height - MOST_OF_MAP))
        has_map = height - table >= LEAST_OF_MAP and (needed <= table or height >= HIGH)
        self.set_class(not has_map, "-no-second")
        self.query_one(RanksPane).styles.height = table if has_map else "1fr"

    def cursor_columns(self) -> int:
        """Those of the steps."""
        pane = self.query_one(RankMapPane)
        return pane.chart.dot_columns // 2 if pane.chart.display else pane.heat.columns
