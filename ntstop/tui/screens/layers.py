"""The layers: a table that is sorted, the heat map beside it, and the curves of the chosen layer."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Container

from .. import bindings
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
            yield LayersPane(id="layers")
            yield LayerCurvesPane(id="layer-curves")

    def layout_classes(self, width: int, height: int) -> dict[str, bool]:
        """On a small terminal the table and the curves of the chosen layer stay."""
        is_wide = width >= 130
        return {"-one-column": not is_wide, "-no-layers": not is_wide and height < 44}

    def cursor_columns(self) -> int:
        """Those of the layer's curves."""
        return self.query_one(LayerCurvesPane).chart.dot_columns // 2

    def action_fold(self) -> None:
        """Layers, modules, parts of the model, layers …"""
        self.query_one(LayerTable).fold()
        self.redraw()

    def on_layer_table_chosen(self, event: LayerTable.Chosen) -> None:
        """The curves are those of the chosen row."""
        curves = self.query_one(LayerCurvesPane)
        curves.label, curves.chosen = event.label, event.layers
        self.redraw()
