"""The help: what the focused pane shows, then every key that works here, made from the active bindings."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar, Protocol, runtime_checkable

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Static

from .. import bindings
from ..keymap import key_label
from ..raster.axes import MARKERS
from ..widgets.pane import is_ascii
from .base import RunScreen
from .dialog import Dialog


@runtime_checkable
class Helpable(Protocol):
    """A pane that can say what it shows."""

    HELP: ClassVar[str]
    """How to read it, a few sentences."""


Keys = list[tuple[str, str]]
MEANINGS = {
    "checkpoint": "a checkpoint was saved",
    "eval": "an evaluation",
    "epoch": "an epoch ended",
    "resume": "training resumed from a checkpoint",
    "mark": "the job has marked it",
    "note": "somebody has noted something",
    "sampling": "the probe looks at less, or at more again",
    "warning": "a warning began",
    "critical": "something critical began",
}
"""Of the markers that are drawn: a finding that is only noted has none."""


def axis_signs(kinds: Collection[str], ascii_only: bool) -> Keys:
    """What the signs on the step axis mean, of these kinds of markers."""
    signs = {kind: (sign, plain) for kind, (sign, plain, _) in MARKERS.items()}
    return [(signs[kind][ascii_only], meaning) for kind, meaning in MEANINGS.items() if kind in kinds]


class HelpScreen(Dialog[None]):
    """Drawn over the screen it explains."""

    AUTO_FOCUS = "#dialog"
    BINDINGS: ClassVar = bindings.LAYER_OUT

    def __init__(self, about: str, groups: list[tuple[str, Keys]]) -> None:
        super().__init__()
        self.about = about
        self.groups = groups

    @classmethod
    def of(cls, screen: Screen[object]) -> HelpScreen:
        """The help for `screen` as it stands: the focused pane first."""
        focused = screen.focused
        about = focused.HELP if isinstance(focused, Helpable) else ""
        groups: dict[str, Keys] = {}
        seen = set()
        here = screen.TITLE or "this screen"
        for active in screen.active_bindings.values():
            binding = active.binding
            if binding.system or not binding.tooltip or (active.node, binding.action) in seen:
                continue
            seen.add((active.node, binding.action))
            name = "this pane" if active.node is focused else "everywhere" if active.node is screen.app else here
            is_screen = binding.action.startswith("go(")
            shown = key_label(binding.key) if is_screen or not binding.key_display else binding.key_display
            groups.setdefault(name, []).append((shown, binding.tooltip))
        if about and isinstance(screen, RunScreen):
            # Few of them are there: those first, which nobody can know.
            groups["on the step axis"] = axis_signs(screen.on_axis(), is_ascii(screen.app))
        order = ["on the step axis", "this pane", here, "everywhere"]
        return cls(about, [(name, groups[name]) for name in order if groups.get(name)])

    def compose(self) -> ComposeResult:
        """One column of text, scrollable where the terminal is small."""
        table = Table.grid(padding=(0, 2))
        for name, keys in self.groups:
            table.add_row("", Text(name, style="bold"))
            for shown, help in keys:
                table.add_row(Text(shown, style="bold", justify="right"), help)
            table.add_row("", "")
        with VerticalScroll(id="dialog") as dialog:
            dialog.border_title = "help"
            dialog.border_subtitle = self.frame_keys()
            if self.about:
                yield Static(self.about + "\n", id="about", markup=False)
            yield Static(table)
