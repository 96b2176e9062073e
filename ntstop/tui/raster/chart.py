"""A chart specification to a picture: curves over steps, drawn in dots, with quiet axes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .axes import draw_markers, draw_x_axis, draw_y_axis
from .canvas import ASCII_BAND, ASCII_LINES, BLOCKS, DOTS_X, DOTS_Y, Canvas, characters
from .columns import Columns, reduce_to_columns
from .ink import Ink, band_of
from .labels import draw_direct, draw_marks
from .legend import draw_legend
from .picture import SPACE, Picture
from .scale import HUGE, TINY, XScale, YScale, step_range, y_scale
from .spec import Box, ChartSpec, Colours, Glyphs, Level, Trace

_SPANS = (Ink.SPAN, Ink.SPAN_WARNING, Ink.SPAN_CRITICAL)
ROWS_A_TICK = 3
"""Rows between the labels of the y axis, at least."""


def plot(spec: ChartSpec) -> Picture:
    """Draw `spec` in `spec.width` × `spec.height` cells. Takes any float; too small a size draws what fits."""
    picture = Picture.blank(spec.width, spec.height)
    box = plot_box(spec)
    if box.width < 1 or box.height < 1:
        return picture
    x_range = x_range_of(spec)
    x = XScale(*x_range, box.width * DOTS_X)
    curves = [_Curve.of(trace, x, spec.log) for trace in spec.traces]
    y = _y_scale(spec, curves, box.height)
    if y is None:
        is_broken = any(curve.columns.bad_count for curve in curves)
        _say(picture, box, "nothing finite in view" if is_broken else spec.empty)
    else:
        draw_y_axis(picture, box, y, spec, _most_ticks(box.height))
        _draw_levels(picture, box, y, spec)
        _draw_curves(picture, box, y, curves, spec)
        named = [(curve.trace, curve.columns) for curve in curves]
        draw_marks(picture, box, y, named)
        if box.right < spec.width:
            draw_direct(picture, box, y, named, spec.width - box.right)
    cells = XScale(*x_range, box.width)
    _draw_spans(picture, box, cells, spec)
    _draw_nonfinite(picture, box, curves, spec.glyphs)
    draw_x_axis(picture, box, cells, spec)
    draw_markers(picture, box, cells, spec)
    _draw_cursor(picture, box, cells, spec)
    if y is not None:
        _name_levels(picture, box, y, spec)
    if spec.legend and box.top:
        draw_legend(picture, box, spec, [(curve.columns.bad_count, curve.dropped) for curve in curves])
    if spec.glyphs is Glyphs.ASCII:
        picture.make_ascii()
    return picture


def plot_box(spec: ChartSpec) -> Box:
    """Where the plot stands: what the legend, the labels and the axes leave of it. Small sizes lose those first."""
    left = min(spec.gutter, spec.width) if spec.width >= 3 * spec.gutter else 0
    top = 1 if spec.legend and spec.height >= 5 else 0
    below = 2 if spec.height >= 6 else 1 if spec.height >= 4 else 0
    right = spec.margin if spec.width - left >= 3 * spec.margin else 0
    return Box(left, top, max(spec.width - left - right, 0), max(spec.height - top - below, 0))


def x_range_of(spec: ChartSpec) -> tuple[float, float]:
    """The steps at the left and right edge: as specified, else the rounded extent of the data."""
    return step_range(spec.x_range, *(trace.x for trace in spec.traces))


def x_at(spec: ChartSpec, column: int) -> float | None:
    """The step at a cell column of the picture; None outside of the plot."""
    box = plot_box(spec)
    if not box.left <= column < box.right:
        return None
    return XScale(*x_range_of(spec), box.width).value(column - box.left)


@dataclass(frozen=True, eq=False, slots=True)
class _Curve:
    """A trace, reduced to the columns of this plot."""

    trace: Trace
    columns: Columns
    index: int = 0
    dropped: int = 0
    """Values that a log axis cannot show."""

    @classmethod
    def of(cls, trace: Trace, x: XScale, log: bool) -> _Curve:
        """Reduce; on a log axis what is at or below zero becomes a gap, not a mark."""
        y, nonfinite, lo, dropped = trace.y, trace.nonfinite, trace.lo, 0
        if log:
            with np.errstate(invalid="ignore"):
                low = y <= 0
            if nonfinite is None:
                nonfinite = (~np.isfinite(y)).astype(np.int64)
            if low.any():
                inside = (trace.x >= x.x0) & (trace.x <= x.x1)
                dropped = int((low & inside & np.isfinite(y)).sum())
                y = np.where(low, np.nan, y)
            if lo is not None:
                # A band that reaches to zero begins at the line: its lower edge is not on the axis.
                with np.errstate(invalid="ignore"):
                    lo = np.where(lo <= 0, y, lo)
        columns = reduce_to_columns(
            trace.x, y, x.x0, x.x1, x.columns, lo=lo, hi=trace.hi, nonfinite=nonfinite, segment=trace.segment
        )
        return cls(trace, columns, dropped=dropped)

    @property
    def banded(self) -> bool:
        """Whether a band stands behind the line."""
        return self.trace.lo is not None and self.trace.hi is not None


def _most_ticks(rows: int) -> int:
    """Ticks of a y axis of so many rows; two where there is room for them."""
    return max(rows // ROWS_A_TICK, 2 if rows >= 4 else 1)


def _y_scale(spec: ChartSpec, curves: list[_Curve], rows: int) -> YScale | None:
    """The y axis: as specified, else around the lines. None without a single value."""
    most = _most_ticks(rows)
    if spec.y_range is not None:
        low, high = spec.y_range
        if spec.log:
            low, high = (math.log10(end) if 0 < end < math.inf else math.inf for end in (low, high))
        if max(abs(low), abs(high)) <= HUGE and high - low > max(abs(low), abs(high), TINY) * 1e-9:
            return YScale(low, high, spec.log)
    low, high = math.inf, -math.inf
    for curve in curves:
        lines = (curve.columns.mean,) if curve.banded else (curve.columns.lo, curve.columns.hi)
        bands = (np.median(curve.columns.lo), np.median(curve.columns.hi)) if curve.banded and len(lines[0]) else ()
        for part in (*lines, *map(np.atleast_1d, bands)):
            low, high = min(low, float(part.min(initial=math.inf))), max(high, float(part.max(initial=-math.inf)))
    if low > high:
        return None
    level = math.log10 if spec.log else float
    low, high = level(low), level(high)
    # The outliers of a band may reach out as far again as all the rest does; beyond that they are cut off.
    room = high - low
    for curve in (curve for curve in curves if curve.banded and len(curve.columns.lo)):
        low = min(low, max(level(float(curve.columns.lo.min())), low - room))
        high = max(high, min(level(float(curve.columns.hi.max())), high + room))
    return y_scale(low, high, spec.log, most)


def _draw_curves(picture: Picture, box: Box, y: YScale, curves: list[_Curve], spec: ChartSpec) -> None:
    """Bands first, then lines over all bands, then single values; later traces over earlier ones."""
    blocks = spec.colours is Colours.MANY and spec.glyphs is Glyphs.BRAILLE
    for curve in curves:
        if curve.banded and curve.trace.kind == "line":
            (_draw_shaded_band if blocks else _draw_dotted_band)(picture, box, y, curve, spec)
    lines = [curve for curve in curves if curve.trace.kind == "line"]
    drawn = np.zeros((box.height, box.width), np.uint8)
    for index, curve in enumerate(lines):
        dots = _line_dots(box, y, curve)
        drawn = np.where(dots > 0, drawn | dots, drawn)
        both = np.where(dots > 0, drawn, 0).astype(np.uint8)
        _lay(picture, box, both, curve.trace.ink, spec.glyphs, ASCII_LINES[index % len(ASCII_LINES)])
    for curve in curves:
        if curve.trace.kind == "points":
            _draw_points(picture, box, y, curve, spec.glyphs)


def _line_dots(box: Box, y: YScale, curve: _Curve) -> NDArray[np.uint8]:
    """The line of a curve: through the means where a band tells the rest, else over all its values."""
    canvas, columns, top = Canvas(box.width, box.height), curve.columns, box.height * DOTS_Y - 1
    if curve.banded:
        means = y.position(columns.mean) * top
        canvas.line(columns.column, means, means, columns.joined)
    else:
        canvas.line(columns.column, y.position(columns.first) * top, y.position(columns.last) * top, columns.joined)
        canvas.fill(columns.column, y.position(columns.lo) * top, y.position(columns.hi) * top)
    return canvas.cells()


def _draw_dotted_band(picture: Picture, box: Box, y: YScale, curve: _Curve, spec: ChartSpec) -> None:
    """The band as dots, for terminals that have no shades."""
    canvas, columns, top = Canvas(box.width, box.height), curve.columns, box.height * DOTS_Y - 1
    canvas.band(columns.column, y.position(columns.lo) * top, y.position(columns.hi) * top, columns.joined)
    _lay(picture, box, canvas.cells(), band_of(curve.trace.ink), spec.glyphs, ASCII_BAND)


def _draw_shaded_band(picture: Picture, box: Box, y: YScale, curve: _Curve, spec: ChartSpec) -> None:
    """The band as a surface: ground inside, block elements along its edges; a line over it leaves no hole."""
    canvas, columns, top = Canvas(box.width, box.height, 1, 8), curve.columns, box.height * 8 - 1
    low, high = y.position(columns.lo) * top, y.position(columns.hi) * top
    canvas.band(columns.column // DOTS_X, low, high, columns.joined)
    eighths = canvas.dots()[..., 0]
    filled = eighths.sum(axis=1)
    hangs = eighths[:, 0] & ~eighths[:, -1]
    ink = band_of(curve.trace.ink)
    area = slice(box.top, box.bottom), slice(box.left, box.right)
    hit = filled > 0
    # A lower edge is cut out in the widget's own ground; over a level, which has another, there are whole cells only.
    rough = hit & hangs & (picture.ground[area] != Ink.NONE)
    hit &= ~rough
    picture.ground[area][rough & (filled >= 4)] = ink
    picture.codes[area][hit] = BLOCKS[np.where(hangs, 8 - filled, filled)][hit]
    picture.ink[area][hit] = np.where(hangs, Ink.BACKDROP, ink)[hit]
    picture.ground[area][hit & (hangs | (filled == 8))] = ink


def _lay(picture: Picture, box: Box, dots: NDArray[np.uint8], ink: Ink, glyphs: Glyphs, mark: str) -> None:
    """Put the cells that have dots into the picture."""
    hit = dots > 0
    area = slice(box.top, box.bottom), slice(box.left, box.right)
    _shade(picture, area, hit)
    picture.codes[area][hit] = characters(dots, glyphs, mark)[hit]
    picture.ink[area][hit] = ink


def _shade(picture: Picture, area: Any, hit: NDArray[np.bool_]) -> None:
    """Cells that lose their block to something drawn over it go to the band or to the ground, whichever had more."""
    codes, ink, ground = picture.codes[area], picture.ink[area], picture.ground[area]
    block = hit & (codes >= BLOCKS[1]) & (codes <= BLOCKS[8])
    edge = block & (ink == Ink.BACKDROP)
    ground[edge & (codes > BLOCKS[4])] = Ink.NONE
    full = block & ~edge & (codes >= BLOCKS[4])
    ground[full] = ink[full]


def _draw_points(picture: Picture, box: Box, y: YScale, curve: _Curve, glyphs: Glyphs) -> None:
    """A glyph in the cell of each value."""
    position = y.position(curve.columns.mean)
    shown = (position > -0.01) & (position < 1.01)
    rows = box.bottom - 1 - np.clip(position[shown] * box.height, 0, box.height - 1).astype(np.int64)
    columns = box.left + curve.columns.column[shown] // DOTS_X
    hit = np.zeros(picture.codes.shape, np.bool_)
    hit[rows, columns] = True
    _shade(picture, ..., hit)
    picture.codes[rows, columns] = ord("@" if glyphs is Glyphs.ASCII else "◆")
    picture.ink[rows, columns] = curve.trace.ink


def _draw_nonfinite(picture: Picture, box: Box, curves: list[_Curve], glyphs: Glyphs) -> None:
    """A cross at the top of each column in which something was NaN or infinite."""
    for curve in curves:
        columns = box.left + curve.columns.bad // DOTS_X
        picture.codes[box.top, columns] = ord("x" if glyphs is Glyphs.ASCII else "✕")
        picture.ink[box.top, columns] = Ink.NONFINITE


def _draw_levels(picture: Picture, box: Box, y: YScale, spec: ChartSpec) -> None:
    """Lines and ranges of values, behind everything that is drawn later."""
    for level in spec.levels:
        rows = _rows_of(level, box, y)
        if rows is None:
            continue
        if level.high is None:
            picture.codes[rows, box.left : box.right] = ord("-" if spec.glyphs is Glyphs.ASCII else "╌")
            picture.ink[rows, box.left : box.right] = level.ink
        else:
            picture.ground[rows, box.left : box.right] = level.ink


def _rows_of(level: Level, box: Box, y: YScale) -> slice | None:
    """The rows of the picture in which it stands; None where it is off the axis."""
    edges = y.position(np.array([level.low, level.low if level.high is None else level.high], np.float64))
    if not np.isfinite(edges).all():
        return None
    low, high = sorted(np.clip(edges, -1.0, 2.0).tolist())
    # A range ends below the row that it only touches; a line stands in the row of its tick.
    inside = 1.0 if level.high is None else 0.999999
    first, last = (box.bottom - 1 - math.floor(edge * box.height * inside) for edge in (high, low))
    if last < box.top or first >= box.bottom:
        return None
    return slice(max(first, box.top), min(last, box.bottom - 1) + 1)


def _name_levels(picture: Picture, box: Box, y: YScale, spec: ChartSpec) -> None:
    """The label of each level, as far right and high in it as nothing else is drawn; none where there is no room."""
    for level in spec.levels:
        rows, cells = _rows_of(level, box, y), len(level.label) + 2
        if not level.label or rows is None or box.width < 2 * cells:
            continue
        area = rows, slice(box.left, box.right)
        is_free = (picture.codes[area] == SPACE) | np.isin(picture.ink[area], (Ink.GRID, level.ink))
        is_free &= np.isin(picture.ground[area], (Ink.NONE, Ink.HEALTHY, level.ink, *_SPANS))
        runs = np.lib.stride_tricks.sliding_window_view(is_free, cells, axis=1).all(axis=2)
        row, column = max(zip(*np.nonzero(runs), strict=True), key=lambda at: (at[1], -at[0]), default=(None, 0))
        if row is not None:
            picture.write(rows.start + int(row), box.left + int(column) + 1, level.label, level.ink)


def _draw_spans(picture: Picture, box: Box, cells: XScale, spec: ChartSpec) -> None:
    """Shade stretches of steps: by ground, and where there are no colours by filling what is blank."""
    for span in spec.spans:
        if not span.x0 <= span.x1 or span.x1 < cells.x0 or span.x0 > cells.x1:
            continue
        first, last = cells.column(max(span.x0, cells.x0)), cells.column(min(span.x1, cells.x1))
        area = slice(box.top, box.bottom), slice(box.left + first, box.left + last + 1)
        # A band's lower edge is cut out in the widget's own ground, which is not what stands here: whole cells then.
        edge = picture.ink[area] == Ink.BACKDROP
        _shade(picture, area, edge)
        picture.codes[area][edge] = SPACE
        picture.ground[area][picture.ground[area] == Ink.NONE] = span.ink
        if spec.colours is Colours.NONE:
            blank = picture.codes[area] == SPACE
            picture.codes[area][blank] = ord("." if spec.glyphs is Glyphs.ASCII else "░")
            picture.ink[area][blank] = Ink.GRID


def _draw_cursor(picture: Picture, box: Box, cells: XScale, spec: ChartSpec) -> None:
    """A thin column through what is blank; what is drawn keeps its glyph and gets the cursor's ground."""
    if spec.cursor_x is None or not cells.x0 <= spec.cursor_x <= cells.x1:
        return
    column = box.left + cells.column(spec.cursor_x)
    codes, rows = picture.codes[:, column], slice(box.top, box.bottom)
    free = np.isin(picture.ink[rows, column], (Ink.NONE, Ink.GRID, Ink.HEALTHY)) | (codes[rows] == SPACE)
    codes[rows][free] = ord("|" if spec.glyphs is Glyphs.ASCII else "│")
    picture.ink[rows, column][free] = Ink.CURSOR_LINE
    picture.ground[rows, column][~free] = Ink.CURSOR


def _say(picture: Picture, box: Box, sentence: str) -> None:
    """A sentence in the middle of an empty plot."""
    start = box.left + max((box.width - len(sentence)) // 2, 0)
    picture.write(box.top + (box.height - 1) // 2, start, sentence, Ink.DIM)
