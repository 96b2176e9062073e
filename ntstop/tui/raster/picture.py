"""A drawn picture: a grid of characters with an ink and a ground for each cell."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...text import cell_width, character_width, safe
from .alike import ascii_of
from .ink import Ink

SPACE = ord(" ")
WIDE_TAIL = 0
"""Code of a cell that the wide character to its left covers."""
_STRIDE = 8
"""What changed is repainted in multiples of so many cells: Textual remembers four thousand regions of every kind."""


class Run(NamedTuple):
    """Neighbouring cells of one row that look alike."""

    text: str
    ink: int
    ground: int


@dataclass(frozen=True, eq=False)
class Picture:
    """Arrays of shape (height, width): `codes` (code points, uint32), `ink` and `ground` (`Ink`, uint8).

    A drawing function fills the arrays; whoever got the picture from it only reads.
    """

    codes: NDArray[np.uint32]
    ink: NDArray[np.uint8]
    ground: NDArray[np.uint8]

    @classmethod
    def blank(cls, width: int, height: int) -> Picture:
        """Spaces without ink; a negative size counts as 0."""
        shape = (max(height, 0), max(width, 0))
        return cls(np.full(shape, SPACE, np.uint32), np.zeros(shape, np.uint8), np.zeros(shape, np.uint8))

    @property
    def height(self) -> int:
        """Rows."""
        return int(self.codes.shape[0])

    @property
    def width(self) -> int:
        """Cells in a row."""
        return int(self.codes.shape[1])

    def write(self, row: int, column: int, text: str, ink: int = Ink.TEXT, end: int | None = None) -> int:
        """Write `text`, made safe, from `column` on and cut off at `end` (default: the right edge).

        Returns the column after it. Whole characters only: a wide one that would be cut in half is left out. A row
        outside the picture is ignored.
        """
        end = self.width if end is None else min(end, self.width)
        if not 0 <= row < self.height or column < 0:
            return column
        # Blanks in front put a number in its column; `safe` would make one of them.
        blanks = min(len(text) - len(text.lstrip(" ")), max(end - column, 0))
        self.codes[row, column : column + blanks] = SPACE
        self.ink[row, column : column + blanks] = ink
        column += blanks
        text = safe(text.lstrip(" "))
        if cell_width(text) == len(text):
            part = np.frombuffer(text[: max(end - column, 0)].encode("utf-32-le"), "<u4")
            self.codes[row, column : column + len(part)] = part
            self.ink[row, column : column + len(part)] = ink
            return column + len(part)
        for character in text:
            wide = character_width(character)
            if column + wide > end:
                break
            self.codes[row, column] = ord(character)
            self.codes[row, column + 1 : column + wide] = WIDE_TAIL
            self.ink[row, column : column + wide] = ink
            column += wide
        return column

    def make_ascii(self) -> None:
        """Replace what is not ASCII by what is like it, or by "?"."""
        foreign = self.codes > 126
        if foreign.any():
            seen, where = np.unique(self.codes[foreign], return_inverse=True)
            self.codes[foreign] = np.array([ord(ascii_of(chr(code))[:1] or " ") for code in seen.tolist()], np.uint32)[
                where
            ]
        self.codes[self.codes == WIDE_TAIL] = SPACE

    @cached_property
    def rows(self) -> list[list[Run]]:
        """The rows as runs of like cells, ready to be painted. Cached: do not draw into the picture afterwards."""
        return [self.runs(row) for row in range(self.height)]

    def runs(self, row: int) -> list[Run]:
        """One row as runs of like cells; a wide character is one character in its run's text.

        A blank has no ink to be seen: it takes that of its left neighbour, so that a dotted line is one run. Each run
        costs some forty bytes to the terminal.
        """
        codes, ink, ground = self.codes[row], self.ink[row], self.ground[row]
        if not len(codes):
            return []
        own = np.concatenate(([True], (codes[1:] != SPACE) | (ground[1:] != ground[:-1])))
        ink = ink[np.maximum.accumulate(np.where(own, np.arange(len(codes)), 0))]
        look = ink.astype(np.uint16) << 8 | ground
        starts = np.flatnonzero(np.concatenate(([True], (look[1:] != look[:-1]) & (codes[1:] != WIDE_TAIL))))
        text = codes.astype("<u4").tobytes().decode("utf-32-le")
        bounds = [*starts.tolist(), len(codes)]
        return [
            Run(text[start:stop].replace("\0", ""), int(ink[start]), int(ground[start]))
            for start, stop in pairwise(bounds)
        ]

    def text(self) -> str:
        """The characters alone, a line for each row; for tests, logs and terminals that can do no more."""
        return "\n".join("".join(run.text for run in runs) for runs in self.rows)

    def changes(self, earlier: Picture | None) -> list[tuple[int, int, int]]:
        """What to repaint after `earlier`: (row, first column, column after the last), a triple for each changed row,
        a few cells more than changed.

        A row with wide characters is repainted whole, because a repaint may not begin in the middle of one.
        """
        if earlier is None or earlier.codes.shape != self.codes.shape:
            return [(row, 0, self.width) for row in range(self.height)]
        changed = (self.codes != earlier.codes) | (self.ink != earlier.ink) | (self.ground != earlier.ground)
        spans = []
        for row in np.flatnonzero(changed.any(axis=1)).tolist():
            columns = np.flatnonzero(changed[row])
            first = int(columns[0]) // _STRIDE * _STRIDE
            last = min(self.width, -(-(int(columns[-1]) + 1) // _STRIDE) * _STRIDE)
            if (self.codes[row] == WIDE_TAIL).any() or (earlier.codes[row] == WIDE_TAIL).any():
                first, last = 0, self.width
            spans.append((row, first, last))
        return spans
