"""The axes around a plot: labels of constant width, step numbers, and what happened when."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...text import cell_width, fit
from .ink import Ink
from .picture import Picture
from .scale import XScale, YScale, linear_ticks, nice_step, step_label
from .spec import Box, ChartSpec, Glyphs, Span

CELLS_A_TICK = 14
"""Cells between the labels of the x axis, at least."""
FARTHEST = 1000
"""Cells that no label takes."""

MARKERS: dict[str, tuple[str, str, Ink]] = {
    "sampling": ("┊", ":", Ink.AXIS),
    "mark": ("•", "^", Ink.MARK),
    "epoch": ("╵", "'", Ink.AXIS),
    "eval": ("◇", "v", Ink.DIM),
    "checkpoint": ("⚑", "c", Ink.INFO),
    "resume": ("↺", "r", Ink.INFO),
    "note": ("★", "m", Ink.MARK),
    "info": ("●", "i", Ink.INFO),
    "warning": ("▲", "!", Ink.WARNING),
    "critical": ("✖", "X", Ink.CRITICAL),
}
"""Glyph, ASCII glyph and ink of each kind of marker; where two fall into one cell, the later in this order is seen."""
_WEIGHT = {kind: weight for weight, kind in enumerate(MARKERS)}
_BY_WEIGHT = tuple(MARKERS.values())


def draw_y_axis(picture: Picture, box: Box, y: YScale, spec: ChartSpec, most: int, *, grid: bool = True) -> None:
    """The axis line with a label at each tick, and with `grid` a quiet dotted line across the plot."""
    plain = spec.glyphs is Glyphs.ASCII
    if box.left:
        for row in range(box.top, box.bottom):
            picture.write(row, box.left - 1, "|" if plain else "│", Ink.AXIS)
    for position, label in fitting_ticks(y, most, box.left - 2 if box.left > 2 else FARTHEST, box.height):
        row = box.bottom - 1 - min(int(position * box.height), box.height - 1)
        if grid:
            picture.codes[row, box.left : box.right : 4] = ord("." if plain else "·")
            picture.ink[row, box.left : box.right : 4] = Ink.GRID
        if box.left > 2:
            picture.write(row, 0, fit(label, box.left - 2, right=True), Ink.DIM)
            picture.write(row, box.left - 1, "+" if plain else "┤", Ink.AXIS)


def fitting_ticks(y: YScale, most: int, room: int, rows: int) -> list[tuple[float, str]]:
    """About `most` ticks whose labels have `room`: fewer where they are too long, more where there would be but one.

    A single number says where an axis is, not how far it reaches. None of two ticks stand in one of `rows`.
    """
    best: list[tuple[float, str]] = []
    for wanted in (most, most + 1, most + 2, most + 3, *range(most - 1, 0, -1)):
        ticks = [(at, label) for at, label in y.ticks(wanted) if -1e-6 <= at <= 1 + 1e-6 and len(label) <= room]
        if len({int(at * rows) for at, _ in ticks}) == len(ticks) > len(best):
            best = ticks
        if len(best) >= 2 or rows < 3:
            break
    return best


def draw_x_axis(picture: Picture, box: Box, cells: XScale, spec: ChartSpec) -> None:
    """The axis line, ticks, and step numbers below; the cursor's own step replaces the labels it would cover."""
    if box.bottom >= picture.height:
        return
    plain = spec.glyphs is Glyphs.ASCII
    if box.left:
        picture.write(box.bottom, box.left - 1, "+" if plain else "└", Ink.AXIS)
    picture.write(box.bottom, box.left, ("-" if plain else "─") * box.width, Ink.AXIS)
    most = max(box.width // CELLS_A_TICK, 1)
    spacing = nice_step(cells.x1 - cells.x0, most)
    end = box.left
    cursor = _draw_cursor_label(picture, box, cells, spec, spacing)
    for step in linear_ticks(cells.x0, cells.x1, most):
        column = cells.column(step)
        if not 0 <= column < box.width:
            continue
        picture.write(box.bottom, box.left + column, "+" if plain else "┬", Ink.AXIS)
        label = step_label(step, spacing)
        start = _centred(box, picture.width, column, label)
        stop = start + len(label)
        if start < end or (cursor and start <= cursor[1] and stop >= cursor[0]):
            continue
        end = picture.write(box.bottom + 1, start, label, Ink.DIM) + 1


def _draw_cursor_label(
    picture: Picture, box: Box, cells: XScale, spec: ChartSpec, spacing: float
) -> tuple[int, int] | None:
    """The step under the cursor, below the axis; where it stands, or None without a cursor."""
    if spec.cursor_x is None or not cells.x0 <= spec.cursor_x <= cells.x1:
        return None
    label = f"{spec.cursor_x:,.0f}" if spacing >= 1 else f"{spec.cursor_x:g}"
    start = _centred(box, picture.width, cells.column(spec.cursor_x), label)
    return start, picture.write(box.bottom + 1, start, label, Ink.CURSOR)


def _centred(box: Box, width: int, column: int, label: str) -> int:
    """Where to write a label so that its middle is under a plot column, inside the picture."""
    return max(min(box.left + column - (cell_width(label) - 1) // 2, width - cell_width(label)), 0)


def draw_axis_spans(picture: Picture, box: Box, cells: XScale, spans: Sequence[Span], *, plain: bool) -> None:
    """Stretches of steps as a double line on the axis, in their ground: where cells have grounds of their own."""
    if box.bottom >= picture.height:
        return
    single, double = ("-", "=") if plain else ("─", "═")
    for span in spans:
        if span.x0 <= span.x1 and span.x1 >= cells.x0 and span.x0 <= cells.x1:
            first, last = cells.column(max(span.x0, cells.x0)), cells.column(min(span.x1, cells.x1))
            columns = slice(box.left + first, box.left + last + 1)
            line = picture.codes[box.bottom, columns]
            line[line == ord(single)] = ord(double)
            picture.ground[box.bottom, columns] = span.ink


def draw_markers(picture: Picture, box: Box, cells: XScale, spec: ChartSpec) -> None:
    """A glyph on the x axis for each marker inside the range; in each column the weightiest."""
    if box.bottom >= picture.height or not spec.markers:
        return
    columns = cells.columns_of(np.array([marker.x for marker in spec.markers], np.float64)).tolist()
    weights = dict[int, int]()
    for column, marker in zip(columns, spec.markers, strict=True):
        if 0 <= column < cells.columns:
            weights[column] = max(_WEIGHT[marker.kind], weights.get(column, 0))
    for column, weight in weights.items():
        glyph, plain, ink = _BY_WEIGHT[weight]
        picture.write(box.bottom, box.left + column, plain if spec.glyphs is Glyphs.ASCII else glyph, ink)
