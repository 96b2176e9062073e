"""All ranks of a run: who lags, who waits, who holds how much memory."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Container

from ..widgets.rank_map import RankMapPane
from ..widgets.ranks import RanksPane
from ..workspace import Workspace
from .base import RunScreen


class RanksScreen(RunScreen):
    """A line a rank, and the step time of all over the steps."""

    TITLE = "ranks"
    TURNS = ("ranks", "", "", "", "rank-map", "", "", "")

    @classmethod
    def hidden_why(cls, workspace: Workspace) -> str:
        """One rank has no peers."""
        with workspace.session.lock:
            return "" if len(workspace.session.state.ranks) > 1 else "the run has one rank"

    def body(self) -> ComposeResult:
        """The table above the map."""
        with Container(classes="stacked"):
            yield RanksPane(id="ranks")
            yield RankMapPane(id="rank-map")

    def layout_classes(self, width: int, height: int) -> dict[str, bool]:
        """The map goes where it is too low."""
        return {"-no-second": height < 30}
