"""Waits that come in turn: each k-th step waits long for its batch, and the others hardly do."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..block import StepBlock

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Mask = NDArray[np.bool_]
SPAN: Final = 1024
"""Newest steps that are looked at."""
LONGEST: Final = 32
"""Longest period: thirty-two rounds of it are in the span."""
ROUNDS: Final = 8
"""Rounds that a period must have been seen in."""
LONG: Final = 1.0 / 3.0
"""Of the median wait of the slowest turn: from there on a wait is long."""
AGREES: Final = 0.6
"""Correlation of long waits with their turns: at 4 turns about one wait in ten may be in the wrong class."""
SURE: Final = 30.0
"""Its square times the steps is chi-square with one degree of freedom: by chance once in 20 million tries, and a few
dozen periods are tried at each window."""
BETTER: Final = 0.05
"""By which a longer period must agree better: each multiple of a period is one too."""
MOST: Final = 0.5
"""Of all the waiting that the late turns must take: else it is not they that hold the training up."""
CLEAR: Final = 0.75
NEARLY: Final = 0.95
KEPT: Final = 32
"""So many rounds from the start of a pass on, its first ones among them, are so clearly late in the same turns, of
which the first is none: then the workers are hardly equal. Equal ones begin together, so the first batch of a round is
late and the others come with it; then they drift apart. Of 4,200 looks at simulated loaders of 2 to 16 equal workers,
whose batches vary by 0 to 100 %, 1.2 % were like this (6 % at the worst, where they vary by a tenth), of those at one
worker that is seven times as slow 98 %."""


@dataclass(frozen=True, slots=True)
class Turns:
    """Each `period`-th step is late; the turns are counted from the first step of a pass over the data."""

    period: int
    late: tuple[int, ...]
    """Turns that wait, from 0 to `period` - 1, rising."""
    wait: float
    """Median seconds that a step of theirs waits."""
    others: float
    """The same of the other steps."""
    share: float
    """Of all the waiting that the late turns take."""
    steps: int
    """How many this rests on, from `x0` to `x1`."""
    x0: int
    x1: int
    unequal: bool = False
    """Seen from the start of a pass on, in such a way that equal workers do not explain it."""
    single: bool = True
    """A step takes one batch, so that the turns are those of batches too."""


@dataclass(frozen=True, slots=True)
class _Waits:
    """What is kept of a block: the rest of its columns is ten times as much, and there is one of these a rank."""

    ordinal: int
    count: int
    x: range | Whole
    waits: NDArray[np.float32] | None
    epochs: Floats | None
    """Of each step; of all where it is one number."""
    single: bool


class TurnWatch:
    """Feed it every block; ask it at a step. It keeps the newest waits, and adds them up only when it is asked."""

    def __init__(self) -> None:
        self._blocks: deque[_Waits] = deque()
        self._held = 0
        self._unequal: tuple[int, tuple[int, ...]] | None = None
        self._pass = (0.0, 0)
        """The pass over the data in which the oldest block begins, and the ordinal of its first step."""

    def clear(self) -> None:
        """The steps begin anew."""
        self.__init__()  # type: ignore[misc]

    def add(self, block: StepBlock) -> None:
        """The newest block."""
        self._blocks.append(_waits(block))
        self._held += block.count
        while self._held - self._blocks[0].count - block.count >= SPAN:
            oldest = self._blocks.popleft()
            self._held -= oldest.count
            self._pass = _passes(oldest, self._pass)[1]

    def at(self, x: int, workers: int | None) -> Turns | None:
        """The late turns of the timed steps up to `x`; None where the waits do not come in turn."""
        first, known = self._pass, list[tuple[Whole, Whole, Floats]]()
        for block in self._blocks:
            index, first = _passes(block, first)
            if block.waits is not None:
                known.append((index, np.asarray(block.x), block.waits.astype(np.float64)))
        if not known:
            return None
        index, at, waits = (np.concatenate(column) for column in zip(*known, strict=True))
        # The first batch of a pass waits for the workers to start.
        there = np.flatnonzero(np.isfinite(waits) & (at <= x) & (index > 0))[-SPAN:]
        if not len(there):
            return None
        steps = index[there], at[there], waits[there]
        turns = late_turns(*steps, workers)
        if turns is None and self._unequal is not None:
            # Two that are slow drift apart; they are still all that is waited for.
            turns = _of(*steps, *self._unequal)
            turns = turns if turns.share >= NEARLY else None
        if turns is None:
            return None
        if turns.unequal:
            self._unequal = (turns.period, turns.late)
        single = all(block.single for block in self._blocks)
        return replace(turns, unequal=self._unequal == (turns.period, turns.late), single=single)


def late_turns(index: Whole, x: Whole, waits: Floats, workers: int | None = None) -> Turns | None:
    """The period of the waits that agrees best; `index`: the place of each step in its pass over the data, from 0.

    A period that divides the number of `workers` is theirs, and no other is looked for.
    """
    best = _best(index, waits, _divisors(workers or 0)) or _best(index, waits, range(2, LONGEST + 1))
    if best is None:
        return None
    _, period, late, mask = best
    turns = _of(index, x, waits, period, late)
    if turns.share < MOST:
        return None
    kept = len(waits) >= KEPT * period - ROUNDS and _from_the_start(index, waits, mask, period, late)
    return replace(turns, unequal=kept)


def _of(index: Whole, x: Whole, waits: Floats, period: int, late: tuple[int, ...]) -> Turns:
    """These turns, with their numbers."""
    mask = np.isin(index % period, late)
    total = float(waits.sum())
    return Turns(
        period,
        late,
        wait=float(np.median(waits[mask])) if mask.any() else 0.0,
        others=float(np.median(waits[~mask])) if not mask.all() else 0.0,
        share=float(waits[mask].sum()) / total if total > 0.0 else 0.0,
        steps=len(waits),
        x0=int(x[0]),
        x1=int(x[-1]),
    )


def _best(index: Whole, waits: Floats, periods: Iterable[int]) -> tuple[float, int, tuple[int, ...], Mask] | None:
    """How well the best of the periods agrees, which it is, its late turns, and which steps are theirs."""
    best, agreed = None, AGREES - BETTER
    for period in periods:
        if len(waits) < ROUNDS * period:
            break
        found = _agreement(index % period, waits, period)
        if found is None:
            continue
        agrees, late, mask = found
        if agrees >= agreed + BETTER and agrees * agrees * len(waits) >= SURE:
            best, agreed = (agrees, period, late, mask), agrees
    return best


def _from_the_start(index: Whole, waits: Floats, mask: Mask, period: int, late: tuple[int, ...]) -> bool:
    """Whether the first rounds of a pass were late in the same turns, and the first turn was not among these."""
    early = index < (ROUNDS + 1) * period
    if 0 in late or np.count_nonzero(early) < (ROUNDS - 1) * period:
        return False
    return all(_clear(waits[part], mask[part], LONG * float(np.median(waits[mask]))) for part in (early, slice(None)))


def _clear(waits: Floats, mask: Mask, limit: float) -> bool:
    """Whether hardly any other turns wait: by how many of the waits are long, or by how long they are together."""
    total = float(waits.sum())
    return total > 0.0 and (_correlation(mask, waits >= limit) >= CLEAR or float(waits[mask].sum()) >= NEARLY * total)


def _correlation(one: Mask, other: Mask) -> float:
    """Of two columns of yes and no; 0 where one of them is always the same."""
    if one.all() or other.all() or not one.any() or not other.any():
        return 0.0
    return float(np.corrcoef(one, other)[0, 1])


def _divisors(workers: int) -> list[int]:
    """Periods in which the batches of this many workers may come, the shortest first."""
    return [period for period in range(2, min(workers, LONGEST) + 1) if workers % period == 0]


def _agreement(turn: Whole, waits: Floats, period: int) -> tuple[float, tuple[int, ...], Mask] | None:
    """How well the long waits agree with the late turns (correlation), these turns, and which steps are theirs."""
    counts = np.bincount(turn, minlength=period)
    if counts.min() < ROUNDS // 2:
        return None
    medians = np.array([np.median(waits[turn == one]) for one in range(period)])
    limit = LONG * float(medians.max())
    late = medians >= limit
    if limit <= 0.0 or late.all():
        return None
    mask, long = late[turn], waits >= limit
    return _correlation(mask, long), tuple(np.flatnonzero(late).tolist()), mask


def _waits(block: StepBlock) -> _Waits:
    waits, epochs = block.phases.filled("data"), block.epochs
    return _Waits(
        block.ordinal,
        block.count,
        block.x if isinstance(block.x, range) else np.asarray(block.x),
        None if waits is None else waits.astype(np.float32),
        None if epochs is None or not np.isfinite(epochs).all() else epochs if np.ptp(epochs) else epochs[:1].copy(),
        block.micro is None or set(block.micro) <= {1, None},
    )


def _passes(block: _Waits, first: tuple[float, int]) -> tuple[Whole, tuple[float, int]]:
    """The place of each step of the block in its pass over the data, and the pass that its last step is in."""
    ordinals = np.arange(block.ordinal, block.ordinal + block.count)
    epochs = block.epochs
    if epochs is None or epochs[-1] == first[0]:
        return ordinals - first[1], first
    begins = np.flatnonzero(np.diff(epochs, prepend=first[0]) != 0.0)
    if not len(begins):
        return ordinals - first[1], first
    starts = np.concatenate([[first[1]], ordinals[begins]])
    return ordinals - starts[np.searchsorted(begins, np.arange(block.count), side="right")], (
        float(epochs[-1]),
        int(ordinals[begins[-1]]),
    )
