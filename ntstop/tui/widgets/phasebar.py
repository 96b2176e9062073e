"""The phases of a step as a widget."""

from __future__ import annotations

from dataclasses import replace

from ..raster.picture import Picture
from ..raster.stack import StackSpec, plot_stack, stack_box, stack_step_at
from ..styles.paint import glyphs_of
from .chart import PictureWidget


class PhaseBar(PictureWidget):
    """Shares of the step time: over steps where it has six rows or more, else one bar below its legend."""

    DEFAULT_CSS = "PhaseBar { width: 1fr; height: 1fr; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.spec = StackSpec()

    def show(self, spec: StackSpec) -> None:
        """Show `spec` from now on. Cheap when the picture stays the same; before the first layout it only remembers."""
        self.spec = spec
        self.redraw()

    @property
    def columns(self) -> int:
        """Cell columns: how many steps are worth asking for. 0 before the first layout."""
        return stack_box(replace(self.spec, width=self.size.width, height=self.size.height)).width

    def draw(self, width: int, height: int) -> Picture:
        """Draw the specification at this size."""
        self.spec = replace(self.spec, width=width, height=height, glyphs=glyphs_of(self.app), colours=self.colours)
        return plot_stack(self.spec)

    def step_at(self, column: int) -> float | None:
        """The step at a column; None on the axis labels and on a single bar."""
        return stack_step_at(self.spec, column)
