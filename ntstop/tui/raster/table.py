"""A table of which only the rows in view are made: a thousand layers or ranks cost what fits on the screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...text import cell_width, clip, dotted, fit
from .ink import Ink
from .picture import Picture

GAP = 2
"""Blanks between two columns."""
MARGIN = 2
"""Cells at the left, for the glyph of the chosen row."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `width` in cells; 0: what the others leave, `least` at least."""

    title: str
    width: int = 0
    keep: int = 5
    """Where there is no room for all, the lowest goes first."""
    least: int = 12
    shrunk: int = 0
    """Of a column that takes what is left: the cells that it stays for, once those before it are gone; 0: `least`."""
    right: bool = True
    """Aligned at its right end, as numbers are."""
    tail: bool = False
    """A dotted name, shortened from the left end: the last part of a layer's name says most."""


class Cell(NamedTuple):
    """What stands in one place."""

    text: str
    ink: Ink = Ink.TEXT
    is_path: bool = False
    """Cut off at its left end: the name of a file says more than where it lies."""


def fitting(columns: Sequence[Column], width: int) -> list[int]:
    """Indexes of the columns that there is room for, in their order."""
    kept = list(range(len(columns)))
    while len(kept) > 1 and _needed(columns, kept) > width - MARGIN:
        goes = min(kept, key=lambda index: (columns[index].keep, -index))
        if (shrunk := columns[goes].shrunk) and _needed(columns, kept) - columns[goes].least + shrunk <= width - MARGIN:
            break
        kept.remove(goes)
    return kept


def _needed(columns: Sequence[Column], kept: Sequence[int]) -> int:
    return sum((columns[index].width or columns[index].least) + GAP for index in kept) - GAP


def draw_table(
    columns: Sequence[Column],
    count: int,
    cells: Callable[[int], Sequence[Cell]],
    width: int,
    height: int,
    *,
    top: int = 0,
    chosen: int | None = None,
    sorted_by: int | None = None,
    falling: bool = True,
    empty: str = "",
    ascii_only: bool = False,
) -> Picture:
    """The heading, then the rows from `top` on. `cells` gives one row, a cell a column; it is asked for no others.

    `sorted_by`: index of the column whose heading carries the arrow.
    """
    picture = Picture.blank(width, height)
    if not count:
        picture.write(0, MARGIN, empty, Ink.DIM)
    else:
        kept = fitting(columns, width)
        widths = _widths(columns, kept, width)
        arrow = ("v" if falling else "^") if ascii_only else ("▾" if falling else "▴")
        headings = [
            # The arrow rather than the last letters.
            Cell(clip(columns[index].title, wide - 1, ellipsis="") + arrow, Ink.STRONG)
            if index == sorted_by
            else Cell(columns[index].title, Ink.DIM)
            for index, wide in zip(kept, widths, strict=True)
        ]
        _draw_row(picture, 0, [columns[index] for index in kept], widths, headings)
        for row in range(1, min(height, count - top + 1)):
            line = cells(top + row - 1)
            is_chosen = top + row - 1 == chosen
            _draw_row(picture, row, [columns[index] for index in kept], widths, [line[index] for index in kept])
            if is_chosen:
                picture.write(row, 0, ">" if ascii_only else "▸", Ink.STRONG)
                plain = picture.ink[row] == Ink.TEXT
                picture.ink[row, plain] = Ink.STRONG
    if ascii_only:
        picture.make_ascii()
    return picture


def _widths(columns: Sequence[Column], kept: Sequence[int], width: int) -> list[int]:
    may_shrink = any(columns[index].shrunk for index in kept)
    spare = max(width - MARGIN - _needed(columns, kept), 0 if not may_shrink else -width)
    flexible = [index for index in kept if not columns[index].width]
    share = spare // len(flexible) if flexible else 0
    return [columns[index].width or columns[index].least + share for index in kept]


def _draw_row(
    picture: Picture, row: int, columns: Sequence[Column], widths: Sequence[int], cells: Sequence[Cell]
) -> None:
    place = MARGIN
    for column, width, cell in zip(columns, widths, cells, strict=True):
        text = cell.text
        if cell_width(text) != width:
            text = fit(dotted(text, width) if column.tail else text, width, right=column.right, left=cell.is_path)
        picture.write(row, place, text, cell.ink)
        place += width + GAP
