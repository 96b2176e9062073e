"""The pace of the steps in windows: the median step, and what each phase takes of it, at bounded cost a step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .stall import FIRST_STEPS, SLOW_PHASES

Floats = NDArray[np.float64]
SIZE: Final = 8
"""Timed steps of the first windows: enough for a median that one slow step does not move."""
PER_RUN: Final = 256
"""A window holds this part of the run so far at least: the windows of a million steps are a few thousand."""
TURN: Final = 1.2
"""Times the steps before it that those from a step on take, where a window is worth cutting there."""


@dataclass(frozen=True, slots=True)
class Pace:
    """A window of `count` timed steps from `x0` to `x1`; seconds a step."""

    x0: int
    x1: int
    count: int
    median: float
    mean: float
    longest: float
    phases: Mapping[str, float]
    """Mean seconds a step, evaluation and checkpoint left out."""
    parts: tuple[Pace, Pace] | None = None
    """Its steps before and after the one at which they become slower; None where they do not."""

    @property
    def total(self) -> float:
        """Seconds of all its steps."""
        return self.mean * self.count

    def share(self, phase: str) -> float:
        """Of the step that the phase takes."""
        return self.phases.get(phase, 0.0) / self.mean if self.mean > 0 else 0.0

    def only(self, phase: str) -> Pace:
        """The same window as if a phase were the whole step: its mean, for its median too."""
        seconds = self.phases.get(phase, 0.0)
        parts = None if self.parts is None else (self.parts[0].only(phase), self.parts[1].only(phase))
        return replace(self, median=seconds, mean=seconds, parts=parts)


@dataclass(frozen=True, slots=True)
class Timed:
    """Steps that were timed, in columns: where they stand, and a row of seconds for the step and for each phase."""

    x: Sequence[int]
    names: tuple[str, ...]
    """Of the phases, rising."""
    seconds: Floats
    """[1 + phases, steps]; the first row is the whole step without its evaluations and checkpoints."""

    def part(self, start: int, stop: int) -> Timed:
        """Some of the steps."""
        return Timed(self.x[start:stop], self.names, self.seconds[:, start:stop])


def timed(ordinal: int, x: Sequence[int], seconds: Floats, names: Sequence[str], phases: Floats) -> Timed:
    """The steps that were timed, without the first ones, and without the time of evaluations and checkpoints.

    `seconds` of each step and of its `phases`, a row each in the rising order of `names`; NaN where there is none.
    """
    slow = [row for row, name in enumerate(names) if name in SLOW_PHASES]
    known = [row for row, name in enumerate(names) if name not in SLOW_PHASES]
    spent = seconds
    for row in slow:
        spent = spent - np.nan_to_num(phases[row])
    rows = np.empty((1 + len(known), len(x)))
    rows[0] = spent
    if known:
        rows[1:] = phases[known] if slow else phases
    if ordinal < FIRST_STEPS or not np.isfinite(seconds).all():
        keep = np.isfinite(seconds)
        keep[: max(0, FIRST_STEPS - ordinal)] = False
        x, rows = np.array(x)[keep].tolist(), rows[:, keep]
    # A phase that a step did not have is NaN in it, and took none of it.
    if not np.isfinite(rows).all():
        rows[1:] = np.nan_to_num(rows[1:])
    np.maximum(rows[0], 0.0, out=rows[0])
    return Timed(x, tuple(name for name in names if name not in SLOW_PHASES), rows)


class PaceWindows:
    """Feed it timed steps; it gives the windows that they complete. The size of blocks makes no difference."""

    def __init__(self) -> None:
        self._parts: list[Timed] = []
        self._held = 0
        self._size = SIZE
        self._seen = 0

    def clear(self) -> None:
        """Forget the window that is not complete."""
        self._parts.clear()
        self._held = 0

    def add(self, steps: Timed) -> Iterator[Pace]:
        """Steps as `timed` gives them."""
        at, count = 0, len(steps.x)
        while at < count:
            stop = min(count, at + self._size - self._held)
            self._parts.append(steps.part(at, stop))
            self._held += stop - at
            at = stop
            if self._held == self._size:
                yield self._close()

    def _close(self) -> Pace:
        count = self._held
        names, rows = _together(self._parts)
        pace = _pace((self._parts[0].x[0], self._parts[-1].x[-1]), names, rows)
        if (turn := _turn(rows[0])) is not None:
            x = [x for part in self._parts for x in part.x]
            parts = _pace(x[:turn], names, rows[:, :turn]), _pace(x[turn:], names, rows[:, turn:])
            pace = replace(pace, parts=parts)
        self._parts, self._held = [], 0
        self._seen += count
        self._size = max(SIZE, self._seen // PER_RUN)
        return pace


def _pace(x: Sequence[int], names: Sequence[str], rows: Floats) -> Pace:
    """Of steps that begin and end where `x` does."""
    steps, count = rows[0], rows.shape[1]
    means = (rows.sum(axis=1) / count).tolist()
    return Pace(
        x0=int(x[0]),
        x1=int(x[-1]),
        count=count,
        median=float(np.partition(steps, count // 2)[count // 2]),
        mean=means[0],
        longest=float(steps.max()),
        phases=dict(zip(names, means[1:], strict=True)),
    )


def _turn(steps: Floats) -> int | None:
    """The place from which steps are slower: where cutting in two explains most of their variance."""
    # Nearly all windows are done with here, for a fraction of a microsecond.
    if not steps[-1] >= TURN * steps[0]:
        return None
    before, count = np.cumsum(steps)[:-1], len(steps)
    places = np.arange(1, count)
    total = float(steps.sum())
    place = int(((before - places * (total / count)) ** 2 / (places * (count - places))).argmax()) + 1
    earlier = float(before[place - 1])
    return place if (total - earlier) * place >= TURN * earlier * (count - place) else None


def _together(parts: Sequence[Timed]) -> tuple[Sequence[str], Floats]:
    """Names of all phases, and one table of all parts; a phase that one of them does not have took no time in it."""
    names = parts[0].names
    if all(part.names == names for part in parts):
        return names, np.concatenate([part.seconds for part in parts], axis=1)
    names = tuple(sorted({name for part in parts for name in part.names}))
    rows = np.zeros((1 + len(names), sum(len(part.x) for part in parts)))
    at = 0
    for part in parts:
        cut = slice(at, at + len(part.x))
        rows[[0, *(1 + names.index(name) for name in part.names)], cut] = part.seconds
        at = cut.stop
    return names, rows


def joined(windows: Iterable[Pace]) -> Pace:
    """Several windows as one: means over the steps, the median of their medians. At least one is needed."""
    known = list(windows)
    count = sum(pace.count for pace in known)
    names = sorted({name for pace in known for name in pace.phases})
    return Pace(
        x0=known[0].x0,
        x1=known[-1].x1,
        count=count,
        median=float(np.median([pace.median for pace in known])),
        mean=sum(pace.total for pace in known) / count,
        longest=max(pace.longest for pace in known),
        phases={name: sum(pace.phases.get(name, 0.0) * pace.count for pace in known) / count for name in names},
    )
