"""The layers: a table that is sorted, the heat map beside it, and the curves of the chosen layer."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Container
from textual.widget import Widget

from .. import bindings
from ..layout import TWO_COLUMNS
from ..widgets.layer_curves import LayerCurvesPane
from ..widgets.layer_table import LayerTable
from ..widgets.layers import LayersPane
from .base import RunScreen


class LayersScreen(RunScreen):
    """Table, map, curves."""

    TITLE = "layers"
    BINDINGS: ClassVar = bindings.LAYERS_SCREEN
    TURNS = ("layer-table", "", "layers", "", "layer-table", "", "layer-curves", "")

    def body(self) -> ComposeResult:
        """The table beside map and curves."""
        with Container(classes="major"):
            yield LayerTable(id="layer-table")
        with Container(classes="minor"):
            yield LayersPane(id="layers", called="heat map")
            yield LayerCurvesPane(id="layer-curves")

    def layout_classes(self, width: int, height: int) -> dict[str, bool]:
        """On a small terminal the table and the curves of the chosen layer stay."""
        is_wide = width >= TWO_COLUMNS
        return {"-one-column": not is_wide, "-no-layers": not is_wide and height < 44}

    def home(self) -> Widget | None:
        """The table; the curves while they are large."""
        return self.curves if self.curves.is_large else self.table

    @property
    def table(self) -> LayerTable:
        """The rows."""
        return self.query_one(LayerTable)

    @property
    def curves(self) -> LayerCurvesPane:
        """Those of the chosen row."""
        return self.query_one(LayerCurvesPane)

    def cursor_columns(self) -> int:
        """Those of the layer's curves."""
        return self.curves.dot_columns // 2

    def action_fold(self) -> None:
        """Layers, modules, parts of the model, layers …"""
        self.table.fold()
        self.redraw()

    def action_choose(self, offset: int) -> None:
        """The row above or below, also while the table is not to be seen."""
        self.table.action_row(offset)

    def action_enlarge(self) -> None:
        """All curves of the chosen layer, over the whole screen; or small again."""
        is_large = not self.curves.is_large
        self.curves.enlarge(is_large)
        self.set_class(is_large, "-large")
        if (home := self.home()) is not None:
            home.focus()
        # Only then have the panes their new size.
        self.call_after_refresh(self.redraw)

    def action_back(self) -> None:
        """One layer out: the large curves, then as everywhere."""
        if self.curves.is_large:
            self.action_enlarge()
        else:
            super().action_back()

    def on_layer_table_chosen(self, event: LayerTable.Chosen) -> None:
        """The curves are those of the chosen row, and the map sets it off."""
        self.curves.label, self.curves.chosen = event.label, event.layers
        self.query_one(LayersPane).point_at(event.layers[0])
        self.redraw()

    def on_layers_pane_picked(self, event: LayersPane.Picked) -> None:
        """The table chooses the first layer of the row, unless it is one of them already."""
        row = self.table.chosen
        if row is None or not set(row.layers) & set(event.layers):
            self.table.choose_layer(event.layers[0])
