"""Widgets that show a picture and repaint only what changed in it; the chart over steps is one of them."""

from __future__ import annotations

from dataclasses import replace

from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.strip import Strip

from ..raster.canvas import DOTS_X
from ..raster.chart import plot, plot_box, x_at
from ..raster.picture import Picture
from ..raster.spec import ChartSpec, Colours
from ..styles.paint import colours_of, glyphs_of, palette_of, strip_of
from ..styles.palette import MONO, Palette
from .pointer import PointedWidget


class PictureWidget(PointedWidget):
    """Shows a `Picture`. Subclasses draw one for the present size in `draw` and call `redraw` when its content changed.

    Painting is by rows and only of cells that differ from the picture before, so an unchanged frame costs no bytes.
    """

    DEFAULT_CSS = "PictureWidget { width: 1fr; height: 1fr; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.picture = Picture.blank(0, 0)
        self._palette: Palette = MONO
        self._ground: Style | None = None
        """The widget's own style that the strips are drawn over."""
        self._is_restyled = True
        """Whether that may be another one by now."""
        self._strips: dict[int, Strip] = {}

    def draw(self, width: int, height: int) -> Picture:
        """The picture of `width` × `height` cells that is to be shown now."""
        raise NotImplementedError

    @property
    def colours(self) -> Colours:
        """How much a picture may rely on colours."""
        return colours_of(self._palette)

    def redraw(self) -> None:
        """Draw again and mark the cells that changed for repainting. Cheap when nothing did."""
        width, height = self.size
        if not width or not height:
            return
        palette, ground = palette_of(self.app), self._ground
        if self._is_restyled:
            # Textual adds the styles of everything above the widget up for it, which takes a tenth of a key.
            ground, self._is_restyled = self.rich_style, False
        repainted = palette is not self._palette or ground != self._ground
        self._palette, self._ground = palette, ground
        earlier, self.picture = self.picture, self.draw(width, height)
        changes = self.picture.changes(None if repainted else earlier)
        if len(changes) == height and all(last - first == width for _, first, last in changes):
            self._strips.clear()
            self.refresh()
        elif changes:
            for row, _, _ in changes:
                self._strips.pop(row, None)
            self.refresh(*(Region(first, row, last - first, 1) for row, first, last in changes))

    def render_line(self, y: int) -> Strip:
        """One row, from the cache where nothing in it changed."""
        if y >= self.picture.height or self._ground is None:
            return Strip.blank(self.size.width, self.rich_style)
        strip = self._strips.get(y)
        if strip is None:
            strip = self._strips[y] = strip_of(self.picture, y, self._palette, self._ground)
        return strip

    def render_lines(self, crop: Region) -> list[Strip]:
        """Rows of the widget, which then has no cells left to paint. Textual forgets these only where a widget renders
        all of its lines at once: every other region that was ever painted would stay with a widget that does not."""
        lines = super().render_lines(crop)
        self._dirty_regions.clear()
        return lines

    def repaint(self) -> None:
        """Draw all anew, with nothing kept of before."""
        self._strips.clear()
        self.redraw()

    def notify_style_update(self) -> None:
        """A new theme or focus may change the ground under every cell; most updates do not, and cost no picture."""
        super().notify_style_update()
        self._is_restyled = True
        if not (self.is_attached and self.size.width):
            return
        if self.rich_style != self._ground or palette_of(self.app) is not self._palette:
            self.repaint()

    def on_resize(self, event: events.Resize) -> None:
        """A new size is a new picture."""
        self.repaint()


class Chart(PictureWidget):
    """Curves over steps. `show` a `ChartSpec`; its size, glyphs and colours are set to what the terminal has."""

    DEFAULT_CSS = "Chart { width: 1fr; height: 1fr; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.spec = ChartSpec()

    def show(self, spec: ChartSpec) -> None:
        """Show `spec` from now on. Cheap when the picture stays the same; before the first layout it only remembers."""
        self.spec = spec
        self.redraw()

    @property
    def dot_columns(self) -> int:
        """Columns of dots in the plot: how many buckets of a series are worth asking for. 0 before the first layout."""
        return plot_box(replace(self.spec, width=self.size.width, height=self.size.height)).width * DOTS_X

    def draw(self, width: int, height: int) -> Picture:
        """Plot the specification at this size."""
        self.spec = replace(self.spec, width=width, height=height, glyphs=glyphs_of(self.app), colours=self.colours)
        return plot(self.spec)

    def step_at(self, column: int) -> float | None:
        """The step at a column; None on the axis labels."""
        return x_at(self.spec, column)
