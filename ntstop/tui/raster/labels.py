"""Names where the curves end, and signs on them, so that curves are told apart without a legend and without colours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...text import clip
from .canvas import DOTS_X
from .columns import Columns
from .picture import Picture
from .scale import YScale
from .spec import Box, Glyphs, Trace

MARKS = "●▲■▼○△□◇"
ASCII_MARKS = "ABCDEFGH"
EVERY = 14
"""Cells from one sign of a curve to its next."""


def mark_of(index: int, glyphs: Glyphs) -> str:
    """The sign of the `index`-th curve; the eight repeat."""
    marks = ASCII_MARKS if glyphs is Glyphs.ASCII else MARKS
    return marks[index % len(marks)]


def draw_marks(picture: Picture, box: Box, y: YScale, traces: Sequence[tuple[Trace, Columns]]) -> None:
    """A sign on each curve that has one, now and then; those of two curves stand in different columns."""
    for index, (trace, columns) in enumerate(traces):
        if not trace.mark or not len(columns.column):
            continue
        cells = columns.column // DOTS_X
        offset = EVERY // 2 + 5 * index
        for cell in range(offset % EVERY, box.width, EVERY):
            found = np.flatnonzero(cells == cell)
            if len(found) and (row := row_of(y, box, float(columns.mean[found[0]]))) is not None:
                picture.write(row, box.left + cell, trace.mark, trace.ink)


def draw_direct(picture: Picture, box: Box, y: YScale, traces: Sequence[tuple[Trace, Columns]], margin: int) -> None:
    """The sign and the label of each curve, right of the plot at the height where it ends; none over another."""
    wanted = []
    for trace, columns in traces:
        if trace.label and len(columns.mean):
            row = row_of(y, box, float(columns.mean[-1]), inside=False)
            wanted.append((box.bottom - 1 if row is None else row, -float(columns.mean[-1]), trace))
    wanted.sort(key=lambda item: item[:2])
    for row, (_, _, trace) in zip(_apart([row for row, *_ in wanted], box), wanted, strict=False):
        column = picture.write(row, box.right + 1, trace.mark, trace.ink) + bool(trace.mark)
        picture.write(row, column, clip(trace.label, margin - (column - box.right)), trace.ink)


def row_of(y: YScale, box: Box, value: float, *, inside: bool = True) -> int | None:
    """The row of a value; None where it is not finite, or `inside` and off the axis."""
    position = float(y.position(np.array([value]))[0])
    if not np.isfinite(position) or (inside and not 0.0 <= position <= 1.0):
        return None
    return box.bottom - 1 - int(min(max(position, 0.0), 0.999999) * box.height)


def _apart(rows: Sequence[int], box: Box) -> list[int]:
    """Rising rows, moved as little as keeps them apart and inside; the last ones fall off where there is no room."""
    placed: list[int] = []
    for row in rows[: box.height]:
        placed.append(max(row, placed[-1] + 1 if placed else box.top))
    bottom = box.bottom - 1
    for index in reversed(range(len(placed))):
        placed[index] = min(placed[index], bottom)
        bottom = placed[index] - 1
    return placed
