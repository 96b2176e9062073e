"""A canvas of dots, two by four in each character cell, and the characters that show them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .spec import Floats, Glyphs

DOTS_X, DOTS_Y = 2, 4
"""Dots of one cell, as in a braille character."""
BLOCKS = np.array([ord(character) for character in " ▁▂▃▄▅▆▇█"], np.uint32)
"""Code points of blocks that fill 0 to 8 eighths of a cell from the bottom."""
_BRAILLE = 0x2800
_WEIGHTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], np.uint8)
"""The bit of each dot in a braille character, from the top row down."""


class Canvas:
    """A grid of `columns` × `rows` cells; dots are addressed by column from the left and row from the bottom.

    `across` and `up`: dots of one cell. Braille by default; 1 × 8 for block elements.
    """

    def __init__(self, columns: int, rows: int, across: int = DOTS_X, up: int = DOTS_Y) -> None:
        self.columns, self.rows, self.across, self.up = columns, rows, across, up
        self.width, self.height = columns * across, rows * up
        self._edges = np.zeros((self.width, self.height + 1), np.int32)

    def fill(self, column: NDArray[np.int64], low: Floats, high: Floats) -> None:
        """In each `column` of dots set those from `low` to `high`, in dots from the bottom, as fractions.

        Only what a stroke of one dot needs is set: two strokes that meet half-way between two rows share none. Outside
        of the canvas they end at its edge. NaN draws nothing.
        """
        with np.errstate(invalid="ignore"):
            keep = (low <= high) & (column >= 0) & (column < self.width)
        if not keep.all():
            column, low, high = column[keep], low[keep], high[keep]
        top = self.height - 1
        first = np.clip(np.floor(low + 0.5), 0, top).astype(np.int64)
        last = np.maximum(np.clip(np.ceil(high - 0.5), 0, top).astype(np.int64), first)
        size = self._edges.size
        stride = self.height + 1
        self._edges += (
            np.bincount(column * stride + first, minlength=size)
            - np.bincount(column * stride + last + 1, minlength=size)
        ).reshape(self._edges.shape)

    def line(self, column: NDArray[np.int64], enter: Floats, leave: Floats, joined: NDArray[np.bool_]) -> None:
        """Join points: from `leave` of each to `enter` of the next where that one is `joined`, filled vertically.

        A point that is joined to nothing is a single dot.
        """
        self.fill(column, enter, enter)
        behind, offset, reach = _between(column, joined)
        start, end = leave[behind - 1], enter[behind]
        left = start + (end - start) * (np.maximum(offset - 0.5, 0) / reach)
        right = start + (end - start) * (np.minimum(offset + 0.5, reach) / reach)
        self.fill(column[behind - 1] + offset, np.minimum(left, right), np.maximum(left, right))

    def band(self, column: NDArray[np.int64], low: Floats, high: Floats, joined: NDArray[np.bool_]) -> None:
        """Fill from `low` to `high`, and between neighbours that are joined, so few points make one surface too."""
        self.fill(column, low, high)
        behind, offset, reach = _between(column, joined)
        share = offset / reach
        lows = low[behind - 1] + (low[behind] - low[behind - 1]) * share
        highs = high[behind - 1] + (high[behind] - high[behind - 1]) * share
        self.fill(column[behind - 1] + offset, lows, highs)

    def dots(self) -> NDArray[np.bool_]:
        """Which dots are set, by cell: shape (rows, up, columns, across), from the top."""
        grid = (np.cumsum(self._edges, axis=1)[:, :-1] > 0).T[::-1]
        return grid.reshape(self.rows, self.up, self.columns, self.across)

    def cells(self) -> NDArray[np.uint8]:
        """The dots of each cell as the bits of a braille character, shape (rows, columns)."""
        cells: NDArray[np.uint8] = np.einsum("rycx,yx->rc", self.dots(), _WEIGHTS, dtype=np.uint8, casting="unsafe")
        return cells


def _between(
    column: NDArray[np.int64], joined: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """For each joined pair of points one entry for each column from the first to the second, both included.

    Returns the index of the second point, the columns since the first, and the columns between the two.
    """
    behind = np.flatnonzero(joined)
    reach = column[behind] - column[behind - 1]
    behind, reach = behind[reach > 0], reach[reach > 0]
    entries = reach + 1
    offset = np.arange(int(entries.sum())) - np.repeat(np.cumsum(entries) - entries, entries)
    return np.repeat(behind, entries), offset, np.repeat(reach, entries)


def _ascii_table(default: str) -> NDArray[np.uint32]:
    """The ASCII character for each of the 256 dot patterns, by which quarters of the cell's height have a dot."""
    shapes = {0: " ", 1: "_", 2: "-", 4: "-", 8: "'", 3: ".", 6: "-", 12: "'", 5: ".", 9: ":", 10: ":"}
    table = np.empty(256, np.uint32)
    for dots in range(256):
        quarters = sum(1 << (3 - row) for row in range(4) if dots & int(_WEIGHTS[row].sum()))
        table[dots] = ord(shapes.get(quarters, "|") if not default or not dots else default)
    return table


_ASCII = {mark: _ascii_table(mark) for mark in ("", "*", "+", "o", ":")}
ASCII_LINES = ("", "*", "+", "o")
"""How the first, second… line is drawn in ASCII: by the shape of the stroke, then by a character of its own."""
ASCII_BAND = ":"


def characters(dots: NDArray[np.uint8], glyphs: Glyphs, mark: str = "") -> NDArray[np.uint32]:
    """The code points that show `dots`; in ASCII drawn with `mark`, or by shape where it is ""."""
    if glyphs is Glyphs.ASCII:
        return _ASCII[mark][dots]
    return dots.astype(np.uint32) + _BRAILLE
