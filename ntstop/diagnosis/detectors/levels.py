"""A whole curve in at most 128 blocks of equal size, each with its mean and variance, at constant cost a point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

MAX_BLOCKS = 128


@dataclass(slots=True)
class Block:
    """`count` consecutive finite points between the steps `x0` and `x1`."""

    x0: int
    x1: int
    count: int
    total: float
    squares: float

    @property
    def mean(self) -> float:
        """Mean of the points."""
        return self.total / self.count

    def joined(self, other: Block) -> Block:
        """This block and the one behind it as one."""
        return Block(
            self.x0, other.x1, self.count + other.count, self.total + other.total, self.squares + other.squares
        )


def pooled(blocks: list[Block]) -> tuple[float, float, int]:
    """Mean, variance of the points and number of points of several blocks."""
    count, total, squares = 0, 0.0, 0.0
    for block in blocks:
        count += block.count
        total += block.total
        squares += block.squares
    mean = total / count
    return mean, max(0.0, squares / count - mean * mean), count


def lowest(blocks: list[Block], length: int, step: int, last: int) -> int | None:
    """Where the `length` neighbours of the lowest mean begin, of those at 0, `step`, … up to `last`; None without any.

    The sums run on from one window to the next: the whole takes one pass.
    """
    totals = [0.0, *accumulate(block.total for block in blocks)]
    counts = [0, *accumulate(block.count for block in blocks)]
    return min(
        range(0, last + 1, step),
        key=lambda at: (totals[at + length] - totals[at]) / (counts[at + length] - counts[at]),
        default=None,
    )


class Levels:
    """`blocks` are complete; when there are `MAX_BLOCKS`, pairs are joined and blocks hold twice as many points.

    Sums are kept relative to the first point, so that a small noise on a large level keeps its digits.
    """

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.size = 1
        self.count = 0
        self.origin = 0.0
        """What was subtracted from every point."""
        self._open: Block | None = None

    def add(self, x: int, y: float) -> bool:
        """Add one finite point; True when it completed a block."""
        if self.count == 0:
            self.origin = y
        self.count += 1
        y -= self.origin
        block = self._open
        if block is None:
            block = self._open = Block(x, x, 1, y, y * y)
        else:
            block.x1 = x
            block.count += 1
            block.total += y
            block.squares += y * y
        if block.count < self.size:
            return False
        self.blocks.append(block)
        self._open = None
        if len(self.blocks) == MAX_BLOCKS:
            self.blocks = [
                first.joined(second) for first, second in zip(self.blocks[::2], self.blocks[1::2], strict=True)
            ]
            self.size *= 2
        return True

    @property
    def room(self) -> int:
        """Points that can be added before one completes a block."""
        return self.size - (self._open.count if self._open is not None else 0) - 1 if self.count else 0

    def extend(self, x: Sequence[int], y: NDArray[np.float64]) -> None:
        """Add finite points, `room` of them at most: the same sums, in the same order, as one by one."""
        new = y - self.origin
        block = self._open
        if block is None:
            block = self._open = Block(x[0], x[0], 0, 0.0, 0.0)
        block.x1 = x[-1]
        block.count += len(new)
        # A running sum, because numpy's own adds in pairs and rounds otherwise.
        block.total = float(np.add.accumulate(np.append(block.total, new))[-1])
        block.squares = float(np.add.accumulate(np.append(block.squares, new * new))[-1])
        self.count += len(new)

    def rewind(self, x: int) -> None:
        """Forget what stands at step `x` and later: it is made again."""
        while self.blocks and self.blocks[-1].x1 >= x:
            self.blocks.pop()
        self._open = None

    def clear(self) -> None:
        """Forget everything."""
        self.__init__()  # type: ignore[misc]
