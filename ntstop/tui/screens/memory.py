"""What holds the memory: the model's own share by its layers, the allocator and the host over the steps."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Container

from ..layout import TWO_COLUMNS
from ..widgets.holders import HoldersPane
from ..widgets.host import HostPane
from ..widgets.ledger import LedgerPane
from ..widgets.memory import MemoryPane
from .base import RunScreen


class MemoryScreen(RunScreen):
    """The curves, the ledger, what is in use now, and which parts of the model are large."""

    TITLE = "memory"

    def body(self) -> ComposeResult:
        """Two columns."""
        with Container(classes="major"):
            yield MemoryPane(id="memory")
        with Container(classes="minor"):
            yield LedgerPane(id="ledger")
            yield HostPane(id="host", in_detail=True)
            yield HoldersPane(id="holders")

    def layout_classes(self, width: int, height: int) -> dict[str, bool]:
        """One below the other on a narrow terminal; on a low one the curves stay, then the ledger."""
        is_narrow = width < TWO_COLUMNS
        return {
            "-one-column": is_narrow,
            "-no-host": is_narrow and height < 28,
            "-no-ledger": is_narrow and height < 18,
            "-no-holders": is_narrow or height < 28,
        }

    def cursor_columns(self) -> int:
        """Those of the curves."""
        return self.query_one(MemoryPane).chart.dot_columns // 2
