"""The line above a plot: what each curve is, and its value at the cursor or at its end."""

from __future__ import annotations

import numpy as np

from ...text import cell_width, clip, number
from .ink import Ink
from .picture import Picture
from .spec import Box, ChartSpec, Glyphs, Trace

_ASCII_KEYS = ("--", "**", "++", "oo")


def draw_legend(picture: Picture, box: Box, spec: ChartSpec, counts: list[tuple[int, int]]) -> None:
    """Key, label and value of each trace from the left; what could not be drawn is counted from the right.

    `counts`: for each trace the values that were not finite, and those that a log axis cannot show.
    """
    plain = spec.glyphs is Glyphs.ASCII
    end = _draw_counts(picture, spec, sum(bad for bad, _ in counts), sum(dropped for _, dropped in counts))
    column, lines = box.left, 0
    for trace in spec.traces:
        key = "@" if plain and trace.kind == "points" else "◆" if trace.kind == "points" else "━━"
        if plain and trace.kind == "line":
            key = _ASCII_KEYS[lines % len(_ASCII_KEYS)]
        lines += trace.kind == "line"
        if not trace.label:
            continue
        value = number(value_at(trace, spec.cursor_x)).ljust(7) + spec.unit
        label = clip(trace.label, max(end - column - cell_width(key) - cell_width(value) - 3, 0), left=True)
        if len(label) < min(3, len(trace.label)):
            break
        column = picture.write(0, column, key, trace.ink, end) + 1
        column = picture.write(0, column, label, Ink.TEXT, end) + 1
        column = picture.write(0, column, value, Ink.STRONG, end) + 2


def _draw_counts(picture: Picture, spec: ChartSpec, bad: int, dropped: int) -> int:
    """What is missing from the picture, right-aligned; the column where it begins."""
    plain = spec.glyphs is Glyphs.ASCII
    parts = []
    if bad:
        parts.append((f"{'x' if plain else '✕'} {bad:,} not finite", Ink.NONFINITE))
    if dropped:
        parts.append((f"{dropped:,} {'<=' if plain else '≤'} 0 not shown", Ink.WARNING))
    if spec.log:
        parts.append(("log", Ink.DIM))
    end = picture.width
    for text, ink in reversed(parts):
        if end - cell_width(text) < picture.width // 4:
            continue
        end -= cell_width(text)
        picture.write(0, end, text, ink)
        end -= 2
    return end


def value_at(trace: Trace, cursor: float | None) -> float | None:
    """The value of `point_at`."""
    point = point_at(trace, cursor)
    return None if point is None else point[1]


def point_at(trace: Trace, cursor: float | None) -> tuple[float, float] | None:
    """The last point (x, y) at or before the cursor, or the last of all, finite or not; None where there is none.

    A gap (NaN that `nonfinite` does not count) has no value, so the one before it is told.
    """
    known = np.ones(len(trace.y), np.bool_)
    if trace.nonfinite is not None:
        known = np.isfinite(trace.y) | (trace.nonfinite > 0)
    if cursor is not None:
        known &= trace.x <= cursor
    indexes = np.flatnonzero(known)
    return (float(trace.x[indexes[-1]]), float(trace.y[indexes[-1]])) if len(indexes) else None
