"""Many rows of a log at once, as columns: a log of a million lines has no time for a million rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ntstop_probe.wire import Column

from .reader import Row

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows in order. NaN and Inf in `values` are values; what was not logged is False in its mask (None: all were)."""

    count: int
    steps: NDArray[np.int64] | None
    """None: the log has no step."""
    walls: Floats | None
    """Unix seconds, of every row or of none."""
    values: dict[str, tuple[Floats, Mask | None]]

    def row(self, index: int) -> Row:
        """One of them."""
        return Row(
            None if self.steps is None else int(self.steps[index]),
            {
                name: float(numbers[index])
                for name, (numbers, mask) in self.values.items()
                if mask is None or mask[index]
            },
            None if self.walls is None else float(self.walls[index]),
        )

    def rows(self, start: int = 0) -> Iterator[Row]:
        """All of them, from `start` on."""
        return (self.row(index) for index in range(start, self.count))

    def part(self, rows: slice | Mask) -> Batch:
        """Some of them."""
        values = {
            name: (numbers[rows], None if mask is None else mask[rows]) for name, (numbers, mask) in self.values.items()
        }
        chosen = np.arange(self.count)[rows]
        steps = None if self.steps is None else self.steps[rows]
        return Batch(len(chosen), steps, None if self.walls is None else self.walls[rows], values)


def column(kind: str, numbers: Floats, mask: Mask | None) -> Column | None:
    """A column of the wire; None where nothing is there."""
    if mask is not None and mask.all():
        mask = None
    if mask is None:
        return Column("f4" if kind == "f4" else "f8", numbers.astype("<" + kind).tobytes())
    if not mask.any():
        return None
    bits = np.packbits(mask, bitorder="little").tobytes()
    return Column("f4" if kind == "f4" else "f8", np.where(mask, numbers, 0.0).astype("<" + kind).tobytes(), bits)
