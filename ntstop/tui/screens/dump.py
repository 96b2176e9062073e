"""Where every thread of the job stands, asked for with a key: by py-spy, from outside."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from ...dump import Dump, dump
from ...text import safe
from .. import bindings
from .dialog import Dialog


class DumpScreen(Dialog[None]):
    """Drawn over the screen of the run; reading is done in a thread of its own."""

    AUTO_FOCUS = "#dialog"
    BINDINGS: ClassVar = bindings.LAYER_OUT

    def __init__(self, pid: int) -> None:
        super().__init__()
        self.pid = pid

    def compose(self) -> ComposeResult:
        """One column of text."""
        with VerticalScroll(id="dialog") as dialog:
            dialog.border_title = f"threads of pid {self.pid}"
            dialog.border_subtitle = self.frame_keys()
            yield Static("reading, without pausing the job …")

    async def on_mount(self) -> None:
        """Ask, and show what comes."""
        self.run_worker(self._read(), exclusive=True)

    async def _read(self) -> None:
        told = await asyncio.to_thread(dump, self.pid)
        self.query_one(Static).update(Text(dump_text(told)))


def dump_text(told: Dump) -> str:
    """The stacks, and what it took to get them."""
    if told.problem:
        return safe(told.problem)
    how = "the job was paused for some milliseconds for this" if told.paused else "the job was not paused"
    return "\n".join([how, "", *(safe_line(line) for line in told.text.rstrip().splitlines())])


def safe_line(line: str) -> str:
    """A line with its indentation, which `safe` would take for one blank."""
    return " " * (len(line) - len(line.lstrip())) + safe(line.strip())
