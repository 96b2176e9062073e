"""One screen a file; digits switch between those that are listed here.

A screen is added like this:

1. `screens/<name>.py` holds a subclass of `base.RunScreen` that sets `TITLE` and `TURNS` and yields its panes in
   `body()`. A pane is a subclass of `widgets.pane.Pane`, in a file of its own in `widgets/`: `gather(look)` copies what
   is to be drawn while the sessions are locked, `present()` draws it. What is drawn when is the base's affair: all of
   it when the axis, the cursor or the size changes, else a pane at a time, in its turn, where the run has news.
2. Keys of the screen's own stand in `bindings.py` and are named by its `BINDINGS`; help and hints come from there.
   Cursor, zoom, pause, replay, findings and `esc` are common to all screens. A pane may have `BINDINGS` too.
3. Its place and size stand in `ntstop.tcss`; `layout_classes()` says which hold for a terminal of some size.
4. One line in `SCREENS` below. The module is imported when its digit is first pressed; the screen is kept from then on.
   `hidden_why(workspace)` of the class may say in a few words why there is nothing to show ("the run has one rank").

Everything shared (the runs, the step axis and its cursor, the findings) is in `workspace.Workspace`; a screen keeps
only what is its own.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .base import RunScreen


class Entry(NamedTuple):
    """A screen that a digit opens."""

    key: str
    name: str
    module: str
    """Beside this file."""
    of: str
    """Name of the class."""
    help: str

    def load(self) -> type[RunScreen]:
        """The class; imports its module."""
        found: type[RunScreen] = getattr(importlib.import_module(f".{self.module}", __name__), self.of)
        return found


SCREENS = (
    Entry("1", "overview", "overview", "Overview", "everything at a glance"),
    Entry("2", "curves", "curves", "CurvesScreen", "every curve, of several runs too, side by side or laid over"),
    Entry("3", "layers", "layers", "LayersScreen", "norms and ratios of each layer, as a table, a map and curves"),
    Entry("4", "step", "step", "StepScreen", "where the time of a step goes, and which steps took longest"),
    Entry("5", "memory", "memory", "MemoryScreen", "what holds the memory, on the device and on the host"),
    Entry("6", "ranks", "ranks", "RanksScreen", "one line a rank: lag, step time, wait, memory"),
    Entry("7", "findings", "findings", "FindingsScreen", "everything that was found, with its card"),
    Entry("8", "run", "run", "RunInfo", "how the run was started, what happened in it, what the probe costs"),
)
