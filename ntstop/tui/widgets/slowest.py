"""The steps in view that took longest, with what they spent it on."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...run.process import ProcessState
from ...text import count, duration, percent
from ..raster.ink import Ink
from ..raster.table import Cell, Column
from ..reading import Reading
from ..view import StepView
from ..workspace import Look
from .pane import Value, dated
from .phases import RECENT, STEP_TIME, recent_steps
from .table import StepTable

MOST = 100
"""Steps listed."""


@dataclass(frozen=True, eq=False)
class SlowStep:
    """A step, its seconds, and the seconds of each phase that was timed."""

    step: float
    seconds: float
    phases: Mapping[str, float]
    times_median: float

    @property
    def longest(self) -> tuple[str, float] | None:
        """The phase with most of it, and its share."""
        if not self.phases or self.seconds <= 0:
            return None
        name = max(self.phases, key=lambda phase: self.phases[phase])
        return name, self.phases[name] / self.seconds


def slowest_steps(process: ProcessState, view: StepView, most: int = MOST) -> tuple[list[SlowStep], int]:
    """The slowest of the steps in view that are still known one by one, the slowest first; and of how many."""
    x, seconds = recent_steps(process, view)
    if not len(x):
        return [], 0
    order = np.argsort(seconds)[::-1][:most]
    median = float(np.median(seconds))
    columns = {}
    for name, phase in process.phases.items():
        at, took, _ = phase.recent(RECENT)
        columns[name] = dict(zip(at.tolist(), took.tolist(), strict=True))
    found = []
    for index in order.tolist():
        step = float(x[index])
        phases = {name: column[step] for name, column in columns.items() if np.isfinite(column.get(step, np.nan))}
        ratio = float(seconds[index]) / median if median > 0 else 1.0
        found.append(SlowStep(step, float(seconds[index]), phases, ratio))
    return found, len(x)


class SlowestPane(StepTable[SlowStep]):
    """The slowest steps as a table."""

    NAME = "slowest steps"
    HELP = (
        "The slowest of the newest 4,096 steps in view, and the phase that most of each went to. In the title the step "
        "at the cursor; it is the chosen row where it is among them."
    )
    COLUMNS = (
        Column("step", 8, keep=9),
        Column("took", 7, keep=8),
        Column("× p50", 5, keep=5),
        Column("most in", least=10, keep=7, right=False),
        Column("share", 5, keep=6),
    )

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.found: Sequence[SlowStep] = ()
        self.of = 0
        self.empty = "no step times yet"
        self.cursor: float | None = None
        self.at = Reading()
        """Seconds of the step at the cursor, or of the last before it that was timed."""
        self._shown: float | None = None

    def gather(self, look: Look) -> None:
        """The slowest in view."""
        self.found, self.of = slowest_steps(look.process, look.view)
        self.cursor = look.view.cursor
        self.at = look.reading(STEP_TIME)

    def present(self) -> None:
        """The table; the row of the cursor's step is chosen when the cursor comes to it, and left when it goes."""
        self.set_rows(self.found)
        if self.cursor != self._shown:
            self._shown = self.cursor
            place = next((place for place, row in enumerate(self.rows) if row.step == self.cursor), None)
            if place is None:
                self.unchoose()
            else:
                self.choose(place)
        told: list[Value] = []
        if self.cursor is not None and self.at.y is not None:
            told = [dated(self.at, duration(self.at.y), before=((f"step {count(self.cursor)}", Ink.TEXT),))]
        self.head(told, f"of {count(self.of)}" if self.of else "")

    def cells(self, row: SlowStep) -> Sequence[Cell]:
        """Step, seconds, how far from usual, phase."""
        longest = row.longest
        far = Ink.WARNING if row.times_median >= 2 else Ink.TEXT
        return (
            Cell(count(row.step)),
            Cell(duration(row.seconds)),
            Cell(f"{row.times_median:.1f}", far),
            Cell(longest[0] if longest else "not timed", Ink.TEXT if longest else Ink.DIM),
            Cell(percent(longest[1]) if longest else ""),
        )

    def identity(self, row: SlowStep) -> Hashable:
        """The step."""
        return row.step

    def sort_key(self, row: SlowStep, column: int) -> Any:
        """By what stands in the column."""
        longest = row.longest
        keys = (row.step, row.seconds, row.times_median, longest and longest[0], longest and longest[1])
        return keys[column]

    def step_of(self, row: SlowStep) -> float | None:
        """The step itself."""
        return row.step
