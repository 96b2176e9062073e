"""The heat map of layers over steps as a widget."""

from __future__ import annotations

from dataclasses import replace

from ..raster.heat import HeatSpec, heat_box, heat_layers_at, heat_step_at, plot_heat
from ..raster.picture import Picture
from ..styles.paint import glyphs_of
from .chart import PictureWidget


class HeatMap(PictureWidget):
    """Layers over steps. `show` a `HeatSpec`; its size, glyphs and colours are set to what the terminal has."""

    DEFAULT_CSS = "HeatMap { width: 1fr; height: 1fr; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.spec = HeatSpec()

    def show(self, spec: HeatSpec) -> None:
        """Show `spec` from now on. Cheap when the picture stays the same; before the first layout it only remembers."""
        self.spec = spec
        self.redraw()

    @property
    def columns(self) -> int:
        """Cell columns: how many steps are worth asking for. 0 before the first layout."""
        return heat_box(replace(self.spec, width=self.size.width, height=self.size.height)).width

    def draw(self, width: int, height: int) -> Picture:
        """Draw the specification at this size."""
        self.spec = replace(self.spec, width=width, height=height, glyphs=glyphs_of(self.app), colours=self.colours)
        return plot_heat(self.spec)

    def step_at(self, column: int) -> float | None:
        """The step at a column; None on the names."""
        return heat_step_at(self.spec, column)

    def layers_at(self, row: int) -> list[int]:
        """The indexes of the layers a row stands for."""
        return heat_layers_at(self.spec, row)
