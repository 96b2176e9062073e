"""The overview: alive, learning, waiting for what, broken where. One axis, one cursor, all panes."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Container

from ...text import count
from .. import bindings
from ..facts import Facts
from ..layout import layout_classes
from ..widgets.findings import FindingsPane
from ..widgets.host import HostPane
from ..widgets.layers import LayersPane
from ..widgets.loss import LossPane
from ..widgets.pane import Pane
from ..widgets.phases import PhasesPane
from ..workspace import Look
from .base import RunScreen

ENDED = ("stopped", "failed", "died", "stale", "quiet")
"""States of which the findings say what they rest on."""


class Overview(RunScreen):
    """One screen for one run."""

    TITLE = "overview"
    BINDINGS: ClassVar = bindings.OVERVIEW
    TURNS = ("loss", "", "phases", "", "loss", "", "layers", "", "loss", "", "phases", "", "loss", "", "host", "")
    """The loss once a second, the rest less often."""

    def body(self) -> ComposeResult:
        """Panes in two columns."""
        with Container(id="left"):
            yield LossPane(self.workspace.book, id="loss")
            yield LayersPane(id="layers")
        with Container(id="right"):
            yield PhasesPane(id="phases")
            yield HostPane(id="host")

    def foot(self) -> ComposeResult:
        """The findings."""
        yield FindingsPane(id="findings")

    def layout_classes(self, width: int, height: int) -> dict[str, bool]:
        """Which panes there is room for."""
        return layout_classes(width, height)

    def gather(self, look: Look, panes: list[Pane]) -> None:
        """The loss last: its axis begins where that of the layers below it does."""
        for pane in reversed(panes):
            super().gather(look, [pane])
            if isinstance(pane, LayersPane):
                self.query_one(LossPane).indent(pane.axis_start)

    def say(self, facts: Facts, *, has_steps: bool) -> None:
        """The findings, or that there are none."""
        workspace = self.workspace
        nothing = f"nothing found in {count(facts.step)} steps" if has_steps else "nothing found yet"
        note = facts.why if facts.state in ENDED else ""
        pane = self.query_one(FindingsPane)
        pane.set(workspace.findings, workspace.place, nothing, note, workspace.output_path or "", workspace.notes)

    def cursor_columns(self) -> int:
        """Those of the loss."""
        return self.query_one(LossPane).chart.dot_columns // 2
