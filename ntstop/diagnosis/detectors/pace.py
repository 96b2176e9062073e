"""The pace of the steps in windows: the median step, and what each phase takes of it, at bounded cost a step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .stall import FIRST_STEPS, SLOW_PHASES

Floats = NDArray[np.float64]
SIZE: Final = 8
"""Timed steps of the first windows: enough for a median that one slow step does not move."""
PER_RUN: Final = 256
"""A window holds this part of the run so far at least: the windows of a million steps are a few thousand."""


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

    @property
    def total(self) -> float:
        """Seconds of all its steps."""
        return self.mean * self.count

    def share(self, phase: str) -> float:
        """Of the step that the phase takes."""
        return self.phases.get(phase, 0.0) / self.mean if self.mean > 0 else 0.0


def timed(
    ordinal: int, x: Sequence[int], seconds: Floats, phases: Mapping[str, Floats]
) -> tuple[NDArray[np.int64], Floats, dict[str, Floats]]:
    """The steps that were timed, without the first ones, and without the time of evaluations and checkpoints."""
    xs = np.arange(x[0], x[0] + len(x)) if isinstance(x, range) and x.step == 1 else np.fromiter(x, np.int64, len(x))
    spent = seconds
    for name in SLOW_PHASES & phases.keys():
        spent = spent - np.nan_to_num(phases[name])
    known = {name: phases[name] for name in phases.keys() - SLOW_PHASES}
    if ordinal >= FIRST_STEPS and np.isfinite(seconds).all():
        rows = known
    else:
        keep = np.isfinite(seconds)
        keep[: max(0, FIRST_STEPS - ordinal)] = False
        xs, spent = xs[keep], spent[keep]
        rows = {name: values[keep] for name, values in known.items()}
    # A phase that a step did not have is NaN in it, and took none of it.
    whole = {name: values if np.isfinite(values).all() else np.nan_to_num(values) for name, values in rows.items()}
    return xs, np.maximum(spent, 0.0), whole


class PaceWindows:
    """Feed it timed steps; it gives the windows that they complete. The size of blocks makes no difference."""

    def __init__(self) -> None:
        self._parts: list[tuple[NDArray[np.int64], Floats, dict[str, Floats]]] = []
        self._held = 0
        self._size = SIZE
        self._seen = 0

    def clear(self) -> None:
        """Forget the window that is not complete."""
        self._parts.clear()
        self._held = 0

    def add(self, x: NDArray[np.int64], seconds: Floats, phases: dict[str, Floats]) -> Iterator[Pace]:
        """Steps as `timed` gives them."""
        at = 0
        while at < len(x):
            cut = slice(at, min(len(x), at + self._size - self._held))
            self._parts.append((x[cut], seconds[cut], {name: values[cut] for name, values in phases.items()}))
            self._held += cut.stop - at
            at = cut.stop
            if self._held == self._size:
                yield self._close()

    def _close(self) -> Pace:
        parts, count = self._parts, self._held
        all_seconds = np.concatenate([seconds for _, seconds, _ in parts])
        names = {name for _, _, phases in parts for name in phases}
        pace = Pace(
            x0=int(parts[0][0][0]),
            x1=int(parts[-1][0][-1]),
            count=count,
            median=float(np.partition(all_seconds, count // 2)[count // 2]),
            mean=float(np.add.accumulate(all_seconds)[-1]) / count,
            longest=float(all_seconds.max()),
            phases={
                name: float(np.add.accumulate(np.concatenate([part[name] for _, _, part in parts if name in part]))[-1])
                / count
                for name in sorted(names)
            },
        )
        self._parts, self._held = [], 0
        self._seen += count
        self._size = max(SIZE, self._seen // PER_RUN)
        return pace


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
