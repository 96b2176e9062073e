"""What the run is: how it was started, on what, with which settings, and what has happened in it."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Container

from ..layout import TWO_COLUMNS
from ..widgets.events import EventsPane
from ..widgets.manifest import ManifestPane
from ..widgets.probe import ProbePane
from .base import RunScreen


class RunInfo(RunScreen):
    """Everything that does not move with the curves."""

    TITLE = "run"

    def body(self) -> ComposeResult:
        """The manifest beside events and the probe."""
        with Container(classes="major"):
            yield ManifestPane(id="manifest")
        with Container(classes="minor"):
            yield EventsPane(id="events")
            yield ProbePane(id="probe")

    def layout_classes(self, width: int, height: int) -> dict[str, bool]:
        """Beside each other where there is room; else, on a low terminal, the focused pane is the large one."""
        is_narrow = width < TWO_COLUMNS
        return {"-one-column": is_narrow, "-accordion": is_narrow and height < 50}
