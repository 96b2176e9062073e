"""A heat map of layers over steps: which layer left the healthy range, where and when."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...text import cell_width, clip, dotted, exponent, fit
from .axes import draw_axis_spans, draw_markers, draw_x_axis
from .columns import extents, running
from .ink import Ink
from .names import Rows, group_rows
from .picture import SPACE, Picture
from .scale import XScale, step_range
from .spec import Box, ChartSpec, Colours, Floats, Glyphs, Marker, Span

LEVELS = 3
"""Levels on each side of the healthy band; each is one decade, the last is open."""
MOST_NAMES = 26
"""Cells that names may take: the steps are what is looked at."""
_INKS = np.array(
    [
        *(Ink.HEAT_LOW_3, Ink.HEAT_LOW_2, Ink.HEAT_LOW_1, Ink.HEAT_OK),
        *(Ink.HEAT_HIGH_1, Ink.HEAT_HIGH_2, Ink.HEAT_HIGH_3, Ink.HEAT_ZERO, Ink.HEAT_NONFINITE, Ink.NONE),
    ],
    np.uint8,
)
_OK, _ZERO, _NONFINITE, _MISSING = LEVELS, 2 * LEVELS + 1, 2 * LEVELS + 2, 2 * LEVELS + 3
_GLYPHS = np.array([ord(character) for character in "▁▂▃▄▅▆▇0✕ "], np.uint32)
_ASCII = np.array([ord(character) for character in "_.,-+*#0x "], np.uint32)
"""A bar that is higher the higher the value, in colour or without it."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class HeatSpec:
    """Layers × steps. `values` has shape (layers, n): one column for each of `x`, which goes up; NaN is "not measured".

    `nonfinite` (same shape) is above zero where something measured was NaN or infinite. Each value holds until the
    next, but no longer than twice the usual distance between two. Where x falls back (a resume) the attempts are
    averaged. `band` is the healthy range, drawn neutral; colours go by decades outside of it.
    """

    names: tuple[str, ...] = ()
    x: Floats | None = None
    values: Floats | None = None
    nonfinite: NDArray[np.integer | np.bool_] | None = None
    quiet: NDArray[np.bool_] | None = None
    """Layers (n,) of which a high value says little: they get the first shade above the band, never a louder one."""
    band: tuple[float, float] = (1e-3, 1e-2)
    level: float = 10.0
    """From one level outside of the band to the next, as a factor."""
    x_range: tuple[float, float] | None = None
    markers: tuple[Marker, ...] = ()
    spans: tuple[Span, ...] = ()
    """Stretches of steps that are set off on the axis: the cells have grounds of their own."""
    cursor_x: float | None = None
    width: int = 0
    height: int = 0
    gutter: int = 0
    """Cells for the names; 0: what the names need, within `MOST_NAMES` and a third of the width."""
    legend: bool = True
    rows: str = "layers"
    """What the rows are called, where one stands for several."""
    empty: str = "no layer statistics yet"
    glyphs: Glyphs = Glyphs.BRAILLE
    colours: Colours = Colours.MANY


def plot_heat(spec: HeatSpec) -> Picture:
    """Draw `spec` in `spec.width` × `spec.height` cells. Takes any float and any names."""
    picture = Picture.blank(spec.width, spec.height)
    box = heat_box(spec)
    if box.width < 1 or box.height < 1:
        return picture
    cells = XScale(*heat_range(spec), box.width)
    axes = ChartSpec(markers=spec.markers, cursor_x=spec.cursor_x, glyphs=spec.glyphs)
    rows = _rows(spec, box.height)
    if spec.values is None or spec.x is None or not spec.values.size:
        picture.write(
            box.top + (box.height - 1) // 2, max(box.left, (spec.width - len(spec.empty)) // 2), spec.empty, Ink.DIM
        )
    else:
        levels = _worst_levels(_levels(spec, cells), rows)
        _draw_cells(picture, box, levels, spec)
        _draw_names(picture, box, rows)
    draw_x_axis(picture, box, cells, axes)
    draw_axis_spans(picture, box, cells, spec.spans, plain=spec.glyphs is Glyphs.ASCII)
    draw_markers(picture, box, cells, axes)
    _draw_cursor(picture, box, cells, spec)
    if box.top:
        _draw_legend(picture, box, spec, rows)
    if spec.glyphs is Glyphs.ASCII:
        picture.make_ascii()
    return picture


def heat_box(spec: HeatSpec) -> Box:
    """Where the cells stand: right of the names, between the legend and the step axis."""
    top = 1 if spec.legend and spec.height >= 5 else 0
    below = 2 if spec.height >= 6 else 1 if spec.height >= 4 else 0
    height = max(spec.height - top - below, 0)
    left = spec.gutter
    if not left and spec.names and height:
        left = max(map(cell_width, _rows(spec, height).labels), default=0) + 2
    left = 0 if spec.width < 20 else max(min(left, max(spec.width // 3, min(spec.width // 2 - 3, 22)), MOST_NAMES), 7)
    if spec.values is not None and spec.values.size:
        height = min(height, len(_rows(spec, height).members))
    return Box(left, top, max(spec.width - left, 0), height)


def heat_range(spec: HeatSpec) -> tuple[float, float]:
    """The steps at the left and right edge: as specified, else the rounded extent of `x`."""
    return step_range(spec.x_range, *(() if spec.x is None else (spec.x,)))


def heat_step_at(spec: HeatSpec, column: int) -> float | None:
    """The step at a cell column of the picture; None outside of the cells."""
    box = heat_box(spec)
    if not box.left <= column < box.right:
        return None
    return XScale(*heat_range(spec), box.width).value(column - box.left)


def heat_layers_at(spec: HeatSpec, row: int) -> list[int]:
    """The indexes of the layers that a row of the picture stands for; none outside of the cells."""
    box = heat_box(spec)
    rows = _rows(spec, box.height)
    index = row - box.top
    return rows.members[index].tolist() if 0 <= index < min(len(rows.members), box.height) else []


def _rows(spec: HeatSpec, height: int) -> Rows:
    layers = len(spec.names) if spec.values is None else spec.values.shape[0]
    names = spec.names if len(spec.names) == layers else tuple(f"layer {index}" for index in range(layers))
    return group_rows(names, height)


def _levels(spec: HeatSpec, cells: XScale) -> NDArray[np.int64]:
    """The level of each layer in each cell column, shape (layers, columns): an index into `_INKS`."""
    assert spec.values is not None and spec.x is not None
    x, values, nonfinite = spec.x, spec.values, spec.nonfinite
    if not np.isfinite(x).all() or (np.diff(x) < 0).any():
        order = np.argsort(x, kind="stable")
        order = order[np.isfinite(x[order])]
        x, values, nonfinite = x[order], values[:, order], None if nonfinite is None else nonfinite[:, order]
    start, stop = extents(x, cells)
    with np.errstate(all="ignore"):
        bad = np.isinf(values) if nonfinite is None else np.isinf(values) | (nonfinite > 0)
        logs = np.log10(np.abs(values))
        zero = values == 0
        logs[~np.isfinite(logs)] = np.nan
        unit = math.log10(spec.level)
        logs /= unit
        low, high = (math.log10(end) / unit for end in spec.band)
    finite = np.isfinite(logs)
    total, count = running(np.where(finite, logs, 0.0)), running(finite)
    zeros, bads = running(zero), running(bad)
    count_in, zeros_in, bads_in = (part[:, stop] - part[:, start] for part in (count, zeros, bads))
    mean = (total[:, stop] - total[:, start]) / np.maximum(count_in, 1)
    level = np.full(mean.shape, _OK)
    below, above = mean < low - 1e-9, mean > high + 1e-9
    level[below] = _OK - np.clip(np.ceil(low - mean[below] - 1e-9), 1, LEVELS).astype(np.int64)
    level[above] = _OK + np.clip(np.ceil(mean[above] - high - 1e-9), 1, LEVELS).astype(np.int64)
    if spec.quiet is not None and len(spec.quiet) == len(level):
        level[spec.quiet] = np.minimum(level[spec.quiet], _OK + 1)
    level[count_in == 0] = _MISSING
    level[(zeros_in > 0) & (zeros_in >= count_in)] = _ZERO
    level[bads_in > 0] = _NONFINITE
    return level


def _worst_levels(levels: NDArray[np.int64], rows: Rows) -> NDArray[np.int64]:
    """For each row of the picture the level of that of its layers which is furthest from healthy."""
    badness = np.abs(levels - _OK) * 2 + (levels > _OK)
    badness[levels == _ZERO], badness[levels == _NONFINITE], badness[levels == _MISSING] = 50, 100, -1
    worst = np.empty((len(rows.members), levels.shape[1]), np.int64)
    for row, members in enumerate(rows.members):
        pick = badness[members].argmax(axis=0)
        worst[row] = levels[members[pick], np.arange(levels.shape[1])]
    return worst


def _draw_cells(picture: Picture, box: Box, levels: NDArray[np.int64], spec: HeatSpec) -> None:
    """A glyph, an ink and a ground for each level."""
    rows = min(box.height, len(levels))
    area = slice(box.top, box.top + rows), slice(box.left, box.right)
    levels = levels[:rows]
    picture.codes[area] = (_ASCII if spec.glyphs is Glyphs.ASCII else _GLYPHS)[levels]
    picture.ink[area] = _INKS[levels]
    picture.ground[area] = _INKS[levels]


def _draw_names(picture: Picture, box: Box, rows: Rows) -> None:
    """The names left of the cells, shortened at their left end: the right end is what tells them apart."""
    if box.left < 4:
        return
    for row, label in enumerate(rows.labels[: box.height]):
        picture.write(box.top + row, 0, fit(_short(label, box.left - 1), box.left - 1), Ink.TEXT)


def _short(label: str, width: int) -> str:
    """A row's name in `width` cells; one of several layers loses the name of the last before that of the first."""
    name, times, layers = label.rpartition(" ×")
    if not times:
        return dotted(label, width)
    tail = times + layers
    first, joint, _ = name.partition("…")
    if joint and cell_width(label) > width:
        name, tail = first, joint + tail
    room = width - cell_width(tail)
    return (dotted(name, room) + tail).replace("……", "…") if room >= 4 else dotted(label, width)


def _draw_cursor(picture: Picture, box: Box, cells: XScale, spec: HeatSpec) -> None:
    """The cursor's column on the cursor's ground, with a thin line where it is blank or where there are no grounds."""
    if spec.cursor_x is None or not cells.x0 <= spec.cursor_x <= cells.x1:
        return
    column, rows = box.left + cells.column(spec.cursor_x), slice(box.top, box.bottom)
    blank = (picture.codes[rows, column] == SPACE) | (spec.colours is Colours.NONE)
    picture.codes[rows, column][blank] = ord("|" if spec.glyphs is Glyphs.ASCII else "│")
    picture.ink[rows, column][blank] = Ink.CURSOR_LINE
    picture.ground[rows, column] = Ink.CURSOR


def _draw_legend(picture: Picture, box: Box, spec: HeatSpec, rows: Rows) -> None:
    """What the glyphs mean, and how many layers a row stands for."""
    glyphs = _ASCII if spec.glyphs is Glyphs.ASCII else _GLYPHS
    low, high = (exponent(value, 0) if spec.level >= 10 else f"{value:g}" for value in spec.band)
    groups: list[tuple[str, tuple[int, ...]]] = [
        ("low", tuple(range(LEVELS))),
        (f"{low}{'..' if spec.glyphs is Glyphs.ASCII else '…'}{high} healthy", (_OK,)),
        ("high", tuple(range(_OK + 1, _ZERO))),
        ("zero", (_ZERO,)),
        ("not finite", (_NONFINITE,)),
    ]
    # Above the names too, where there is no room beside them and nothing stands there.
    needed = sum(len(levels) + cell_width(text) + 3 for text, levels in groups[:-1]) - 2
    column = box.left if rows.prefix or box.left + needed <= picture.width else 0
    for text, levels in groups:
        if column + len(levels) + 1 + cell_width(text) > picture.width:
            break
        for level in levels:
            picture.write(0, column, chr(glyphs[level]), int(_INKS[level]))
            picture.ground[0, column] = _INKS[level]
            column += 1
        column = picture.write(0, column + 1, text, Ink.DIM) + 2
    note = (
        f"{rows.layers} {spec.rows} in {len(rows.members)} rows, the worst of each"
        if rows.layers > len(rows.members)
        else ""
    )
    if note and column + cell_width(note) <= picture.width:
        picture.write(0, picture.width - cell_width(note), note, Ink.DIM)
    if box.left >= 4 and rows.prefix:
        picture.write(0, 0, clip(rows.prefix, box.left - 1, left=True), Ink.DIM)
