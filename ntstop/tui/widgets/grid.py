"""Many small charts as one widget: each a title line and a plot; only those that changed are plotted again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ...text import cell_width, clip
from ..raster.canvas import DOTS_X
from ..raster.chart import plot, plot_box, x_at
from ..raster.ink import Ink
from ..raster.picture import Picture
from ..raster.spec import ChartSpec
from ..styles.paint import glyphs_of
from .chart import PictureWidget
from .pane import Value, draw_title, fitting_values, is_ascii

SMALLEST_CELL = (37, 8)
"""Columns and rows of a chart below which its curve is not worth a look."""
GAP = 1


@dataclass(frozen=True, eq=False)
class Cell:
    """One chart of the grid."""

    name: str
    spec: ChartSpec
    values: Sequence[Value] = ()
    note: str = ""
    is_chosen: bool = False


@dataclass(frozen=True, slots=True)
class Geometry:
    """How many charts there is room for, and where each stands: (left, top, width, height)."""

    columns: int
    rows: int
    boxes: tuple[tuple[int, int, int, int], ...] = field(default=())


def geometry(width: int, height: int, count: int) -> Geometry:
    """The grid for `count` charts: as many as there is room for, as large as that leaves them."""
    most = max(1, (width + GAP) // (SMALLEST_CELL[0] + GAP))
    need = max(count, 1)
    # As few columns as leave each chart half as high again as it must be.
    fitting = (columns for columns in range(1, most) if math.ceil(need / columns) * SMALLEST_CELL[1] * 1.5 <= height)
    columns = min(next(fitting, most), need)
    rows = min(max(1, height // SMALLEST_CELL[1]), math.ceil(need / columns))
    boxes = []
    for row in range(rows):
        top, bottom = row * height // rows, (row + 1) * height // rows
        for column in range(columns):
            left, right = column * (width + GAP) // columns, (column + 1) * (width + GAP) // columns - GAP
            boxes.append((left, top, right - left, bottom - top))
    return Geometry(columns, rows, tuple(boxes))


def draw_cell(cell: Cell, picture: Picture, plotted: Picture, box: tuple[int, int, int, int], plain: bool) -> None:
    """Put the title and the plot of one chart into the picture of all."""
    left, top, width, height = box
    name = clip(cell.name, max(width - 14, 8), left=True)
    room = max(width - cell_width(name) - 8, 0)
    values = fitting_values(cell.values, room, least=0)
    title = draw_title(name, values, width, focused=cell.is_chosen, note=cell.note, ascii_only=plain)
    for part, row in ((title, top), (plotted, top + 1)):
        rows = slice(row, min(row + part.height, top + height))
        count = max(rows.stop - rows.start, 0)
        for of, to in ((part.codes, picture.codes), (part.ink, picture.ink), (part.ground, picture.ground)):
            to[rows, left : left + width] = of[:count, :width]


class ChartGrid(PictureWidget):
    """The charts on the screen. `show` cells, in reading order; those beyond the last box are left out."""

    DEFAULT_CSS = "ChartGrid { width: 1fr; height: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self.cells: Sequence[Cell] = ()
        self.lacks = ""
        """Why there is no chart."""
        self.geometry = geometry(1, 1, 1)
        self._plots: dict[int, tuple[ChartSpec, Picture]] = {}

    def room(self, count: int) -> Geometry:
        """The grid at the present size for `count` charts."""
        return geometry(self.size.width, self.size.height, count)

    def show(self, cells: Sequence[Cell], shape: Geometry) -> None:
        """Show these from now on. A cell with the same specification object is not plotted again."""
        if shape != self.geometry:
            self._plots.clear()
        self.cells, self.geometry = cells, shape
        self.redraw()

    def dot_columns(self, place: int, shape: Geometry, margin: int = 0) -> int:
        """Columns of dots in the plot of one chart."""
        width, height = shape.boxes[place][2:] if place < len(shape.boxes) else (0, 0)
        return plot_box(ChartSpec(width=width, height=height - 1, legend=False, margin=margin)).width * DOTS_X

    def draw(self, width: int, height: int) -> Picture:
        """All charts at this size."""
        picture = Picture.blank(width, height)
        plain = is_ascii(self.app)
        if not self.cells:
            picture.write(height // 2, max((width - cell_width(self.lacks)) // 2, 0), self.lacks, Ink.DIM)
        for place, (cell, box) in enumerate(zip(self.cells, self.geometry.boxes, strict=False)):
            if box[0] + box[2] > width or box[1] + box[3] > height:
                continue
            draw_cell(cell, picture, self._plot(place, cell.spec, box), box, plain)
        return picture

    def _plot(self, place: int, spec: ChartSpec, box: tuple[int, int, int, int]) -> Picture:
        sized = replace(spec, width=box[2], height=box[3] - 1, glyphs=glyphs_of(self.app), colours=self.colours)
        known = self._plots.get(place)
        if known is None or known[0] is not spec:
            known = self._plots[place] = spec, plot(sized)
        return known[1]

    def repaint(self) -> None:
        """Another theme may draw with other characters."""
        self._plots = {}
        super().repaint()

    def place_at(self, column: int, row: int) -> int | None:
        """Which chart is there."""
        for place, (left, top, width, height) in enumerate(self.geometry.boxes):
            if left <= column < left + width and top <= row < top + height and place < len(self.cells):
                return place
        return None

    def step_at(self, column: int) -> float | None:
        """The place on the axis at a column, in whichever chart of the first row stands there."""
        for cell, (left, _, width, height) in zip(self.cells, self.geometry.boxes, strict=False):
            if left <= column < left + width:
                return x_at(replace(cell.spec, width=width, height=height - 1), column - left)
        return None
