"""Where the time goes: the phases over the steps, how long steps take, and which took longest."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Container

from ..layout import TWO_COLUMNS
from ..widgets.distribution import DistributionPane
from ..widgets.phases import PhasesPane
from ..widgets.slowest import SlowestPane
from ..widgets.throughput import ThroughputPane
from .base import RunScreen


class StepScreen(RunScreen):
    """Phases and throughput over the steps; distribution and slowest steps beside them."""

    TITLE = "step"
    TURNS = ("phases", "", "throughput", "", "distribution", "", "slowest", "")

    def body(self) -> ComposeResult:
        """Two columns."""
        with Container(classes="major"):
            yield PhasesPane(id="phases")
            yield ThroughputPane(id="throughput")
        with Container(classes="minor"):
            yield DistributionPane(id="distribution")
            yield SlowestPane(id="slowest")

    def layout_classes(self, width: int, height: int) -> dict[str, bool]:
        """On a small terminal the phases and the slowest steps stay."""
        is_wide = width >= TWO_COLUMNS
        return {"-one-column": not is_wide, "-brief": height < (24 if is_wide else 34)}

    def cursor_columns(self) -> int:
        """Those of the phases."""
        return self.query_one(PhasesPane).bar.columns
