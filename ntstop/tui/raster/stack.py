"""Where the time of a step goes: the shares of its phases, stacked over steps or in one bar."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...text import cell_width, percent
from .axes import draw_axis_spans, draw_markers, draw_x_axis, draw_y_axis
from .canvas import BLOCKS
from .columns import extents, running
from .ink import Ink
from .picture import SPACE, Picture
from .scale import XScale, YScale, step_range
from .spec import Box, ChartSpec, Colours, Floats, Glyphs, Marker, Span

PHASES: dict[str, tuple[str, str, Ink]] = {
    "data": ("data", "d", Ink.PHASE_DATA),
    "input+forward": ("in+fwd", "f", Ink.PHASE_FORWARD),
    "forward": ("fwd", "f", Ink.PHASE_FORWARD),
    "backward": ("bwd", "b", Ink.PHASE_BACKWARD),
    "optimizer": ("opt", "o", Ink.PHASE_OPTIMIZER),
    "eval": ("eval", "e", Ink.PHASE_EVAL),
    "checkpoint": ("ckpt", "c", Ink.PHASE_CHECKPOINT),
    "other": ("other", ".", Ink.PHASE_OTHER),
}
"""Word, letter and ink of each phase; they are stacked in this order, from the bottom or the left."""

_ROWS_OVER_TIME = 6
"""Height from which the shares are drawn over steps; below it is one bar."""


@dataclass(frozen=True, eq=False, slots=True)
class Part:
    """One phase: its mean seconds `y` at steps `x` (a name of `PHASES`). NaN: not measured there."""

    name: str
    x: Floats
    y: Floats


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class StackSpec:
    """Phases over steps. Percentages in the legend are of the column at the cursor, else of all that is shown."""

    parts: tuple[Part, ...] = ()
    x_range: tuple[float, float] | None = None
    markers: tuple[Marker, ...] = ()
    spans: tuple[Span, ...] = ()
    """Stretches of steps that are set off on the axis."""
    cursor_x: float | None = None
    at_cursor: Mapping[str, float] = field(default_factory=dict)
    """Seconds of each phase in the very step under the cursor; empty: not known, then the column's are told."""
    width: int = 0
    height: int = 0
    gutter: int = 8
    legend: bool = True
    empty: str = "no step times yet"
    glyphs: Glyphs = Glyphs.BRAILLE
    colours: Colours = Colours.MANY


def plot_stack(spec: StackSpec) -> Picture:
    """Draw `spec` in `spec.width` × `spec.height` cells: over steps where there is height for it, else one bar."""
    picture = Picture.blank(spec.width, spec.height)
    box = stack_box(spec)
    if box.width < 1 or box.height < 1:
        return picture
    cells = XScale(*stack_range(spec), box.width)
    parts = sorted(spec.parts, key=_order)
    seconds = np.array([_column_means(part, cells) for part in parts]).reshape(len(parts), box.width)
    shown = _shown(parts, seconds, cells, spec)
    if not shown.sum() > 0:
        start = box.left + max((box.width - len(spec.empty)) // 2, 0)
        picture.write(box.top + (box.height - 1) // 2, start, spec.empty, Ink.DIM)
    elif spec.height < _ROWS_OVER_TIME:
        _draw_bar(picture, box, parts, shown / shown.sum(), spec)
    else:
        _draw_columns(picture, box, parts, seconds, spec)
    if spec.height >= _ROWS_OVER_TIME:
        _draw_axes(picture, box, cells, spec)
    if box.top:
        _draw_legend(picture, parts, shown, spec)
    if spec.glyphs is Glyphs.ASCII:
        picture.make_ascii()
    return picture


def stack_box(spec: StackSpec) -> Box:
    """Where the stack stands: below the legend; over steps it has axes too."""
    top = 1 if spec.legend and spec.height >= 2 else 0
    if spec.height < _ROWS_OVER_TIME:
        return Box(0, top, max(spec.width, 0), max(spec.height - top, 0))
    left = min(spec.gutter, spec.width) if spec.width >= 3 * spec.gutter else 0
    return Box(left, top, max(spec.width - left, 0), spec.height - top - 2)


def stack_range(spec: StackSpec) -> tuple[float, float]:
    """The steps at the left and right edge: as specified, else the rounded extent of the data."""
    return step_range(spec.x_range, *(part.x for part in spec.parts))


def stack_step_at(spec: StackSpec, column: int) -> float | None:
    """The step at a cell column of the picture; None outside of the plot and on a single bar."""
    box = stack_box(spec)
    if spec.height < _ROWS_OVER_TIME or not box.left <= column < box.right:
        return None
    return XScale(*stack_range(spec), box.width).value(column - box.left)


def _order(part: Part) -> int:
    return list(PHASES).index(part.name) if part.name in PHASES else len(PHASES)


def _phase(part: Part) -> tuple[str, str, Ink]:
    """Word, letter and ink; a phase that is not in the table has its own name and looks like the rest."""
    return PHASES.get(part.name, (part.name, "?", Ink.PHASE_OTHER))


def _column_means(part: Part, cells: XScale) -> Floats:
    """The mean seconds in each column, 0 where there are none."""
    known = np.isfinite(part.x) & np.isfinite(part.y) & (part.y >= 0) & (part.y < 1e12)
    x, y = part.x[known], part.y[known]
    if (np.diff(x) < 0).any():
        order = np.argsort(x, kind="stable")
        x, y = x[order], y[order]
    start, stop = extents(x, cells)
    sums = running(y[None])[0]
    means: Floats = (sums[stop] - sums[start]) / np.maximum(stop - start, 1)
    return means


def _shown(parts: list[Part], seconds: Floats, cells: XScale, spec: StackSpec) -> Floats:
    """The seconds of each phase that the percentages are of: at the cursor, else all over."""
    if spec.cursor_x is not None and cells.x0 <= spec.cursor_x <= cells.x1:
        if sum(spec.at_cursor.values()) > 0:
            return np.array([spec.at_cursor.get(part.name, 0.0) for part in parts])
        at: Floats = seconds[:, cells.column(spec.cursor_x)]
        if at.sum() > 0:
            return at
    whole: Floats = seconds.sum(axis=1)
    return whole


def _draw_columns(picture: Picture, box: Box, parts: list[Part], seconds: Floats, spec: StackSpec) -> None:
    """A stack in each column, in eighths of a row: a block of the lower phase over the ground of the upper one."""
    total = seconds.sum(axis=0)
    ends = np.cumsum(seconds, axis=0) / np.where(total > 0, total, 1)
    heights = (np.arange(box.height * 8) + 0.5) / (box.height * 8)
    phase = np.minimum((heights[:, None, None] >= ends[None]).sum(axis=1), len(parts) - 1)
    phase = phase[::-1].reshape(box.height, 8, box.width)
    lower, upper = phase[:, 7], phase[:, 0]
    filled = (phase == lower[:, None]).sum(axis=1)
    inks = np.array([_phase(part)[2] for part in parts], np.uint8)
    area = slice(box.top, box.bottom), slice(box.left, box.right)
    known = np.broadcast_to(total > 0, lower.shape)
    if spec.glyphs is Glyphs.ASCII or spec.colours is Colours.NONE:
        letters = np.array([ord(_phase(part)[1]) for part in parts], np.uint32)
        most = np.where(filled >= 4, lower, upper)
        picture.codes[area][known] = letters[most][known]
        picture.ink[area][known] = inks[most][known]
        return
    picture.codes[area][known] = np.where(filled == 8, SPACE, BLOCKS[filled])[known]
    picture.ink[area][known] = inks[lower][known]
    picture.ground[area][known] = inks[upper][known]
    _name_layers(picture, box, parts, np.where(known & (filled == 8), lower, -1))


def _name_layers(picture: Picture, box: Box, parts: list[Part], whole: NDArray[np.int64]) -> None:
    """Write each phase's word on it at the right end, where it has a row of whole cells there."""
    for index, part in enumerate(parts):
        word = f" {_phase(part)[0]} "
        cells = cell_width(word)
        if cells > box.width:
            continue
        rows = np.flatnonzero((whole[:, box.width - cells :] == index).all(axis=1))
        if len(rows):
            picture.write(box.top + int(rows[len(rows) // 2]), box.right - cells, word, Ink.ON_PHASE)


def _draw_bar(picture: Picture, box: Box, parts: list[Part], shares: Floats, spec: StackSpec) -> None:
    """One bar across the width, each phase with its word on it where that fits."""
    ends = np.rint(np.cumsum(shares) * box.width).astype(np.int64)
    plain = spec.glyphs is Glyphs.ASCII or spec.colours is Colours.NONE
    for part, share, start, end in zip(parts, shares.tolist(), [0, *ends[:-1].tolist()], ends.tolist(), strict=True):
        word, letter, ink = _phase(part)
        for row in range(box.top, box.bottom):
            picture.codes[row, start:end] = ord(letter) if plain else SPACE
            picture.ink[row, start:end] = ink
            picture.ground[row, start:end] = Ink.NONE if plain else ink
        if plain or box.top:
            continue
        text = f" {word} {percent(share)}"
        if cell_width(text) <= end - start:
            picture.write(box.top, start, text, Ink.ON_PHASE)


def _draw_axes(picture: Picture, box: Box, cells: XScale, spec: StackSpec) -> None:
    """Per cent up the side, steps along the bottom, and the cursor."""
    axes = ChartSpec(markers=spec.markers, cursor_x=spec.cursor_x, glyphs=spec.glyphs)
    draw_x_axis(picture, box, cells, axes)
    draw_axis_spans(picture, box, cells, spec.spans, plain=spec.glyphs is Glyphs.ASCII)
    draw_markers(picture, box, cells, axes)
    draw_y_axis(picture, box, YScale(0.0, 100.0), axes, 2, grid=False)
    if spec.cursor_x is not None and cells.x0 <= spec.cursor_x <= cells.x1:
        column = box.left + cells.column(spec.cursor_x)
        picture.codes[box.top : box.bottom, column] = ord("|" if spec.glyphs is Glyphs.ASCII else "│")
        picture.ink[box.top : box.bottom, column] = Ink.CURSOR_LINE
        picture.ground[box.top : box.bottom, column] = Ink.CURSOR


def _draw_legend(picture: Picture, parts: list[Part], shown: Floats, spec: StackSpec) -> None:
    """Key, word and per cent of each phase, in the order they are stacked; closer together where they would not fit."""
    plain = spec.glyphs is Glyphs.ASCII or spec.colours is Colours.NONE
    total = float(shown.sum())
    shares = [seconds / total if total > 0 else None for seconds in shown.tolist()]
    texts = [(_phase(part), percent(share, 4)) for part, share in zip(parts, shares, strict=True)]
    gap = 2
    if sum(cell_width(word) + len(share) + 3 + gap for (word, _, _), share in texts) - gap > picture.width:
        gap = 1
        texts = [
            (phase, ("–" if share is None else f"{share:.0%}").rjust(3))
            for (phase, _), share in zip(texts, shares, strict=True)
        ]
    cells = [cell_width(word) + len(share) + 2 + 2 * gap - 1 for (word, _, _), share in texts]
    by_share = sorted(range(len(texts)), key=lambda place: shown[place])
    while by_share and sum(cells[place] for place in by_share) - gap > picture.width:
        # What takes least of the step says least.
        del by_share[0]
    column = 0
    for (word, letter, ink), share in (texts[place] for place in sorted(by_share)):
        # Close together a letter would be read as part of the word, which says it anyway.
        is_told = plain and gap == 1 and word.startswith(letter)
        if not is_told:
            column = picture.write(0, column, letter if plain else "█", ink) + gap - 1
        column = picture.write(0, column, word, ink if is_told else Ink.TEXT) + 1
        column = picture.write(0, column, share, Ink.STRONG) + gap
