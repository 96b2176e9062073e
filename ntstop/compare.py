"""Runs beside each other as text: how low each loss came, where, and how far it is from that of the first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ntstop import text
from ntstop.curves.series import Series
from ntstop.curves.smooth import smoothed
from ntstop.run.names import evaluation_losses, main_curve
from ntstop.session import Session

_COLUMNS = 1024
"""Places of a curve at which it is smoothed."""
_FEW = 64
"""Points of a curve below which it is taken as it is: evaluations."""


@dataclass(frozen=True, eq=False, slots=True)
class Course:
    """The smoothed curve of one run, by step; without what is not finite, which is counted."""

    run: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    last: float | None
    """The newest value: smoothed, but as it is where it is NaN or Inf."""
    remark: str = ""
    """How many values are not finite, and since when; "" where all are."""

    @classmethod
    def of(cls, run: str, series: Series) -> Course | None:
        """The course of a series, empty where nothing in it is finite; None where it has no point."""
        if series.x_range is None:
            return None
        first, last = series.x_range
        found = series.window(first, last, _COLUMNS)
        y = found.mean if series.count < _FEW else smoothed(found, "light", last - first)
        known = np.isfinite(y)
        x, y = found.x[known], y[known]
        order = np.argsort(x, kind="stable")
        newest = series.last_y
        if len(y) and newest is not None and np.isfinite(newest):
            newest = float(y[-1])
        remark = ""
        if series.first_nonfinite_x is not None:
            remark = f"{series.nonfinite:,} not finite, the first at step {text.count(series.first_nonfinite_x)}"
        return cls(run, x[order], y[order], newest, remark)

    def less(self, other: Course) -> tuple[float, float] | None:
        """(step, difference) at the last step that both have come to; None where they share none."""
        if not len(self.x) or not len(other.x):
            return None
        step = min(self.x[-1], other.x[-1])
        if step < max(self.x[0], other.x[0]):
            return None
        return float(step), float(np.interp(step, self.x, self.y) - np.interp(step, other.x, other.y))


def comparison(runs: Sequence[tuple[str, Session]]) -> str:
    """A table for the training loss, then one for each loss on other data that two of the runs have; several lines."""
    lines = list(_table(_states(runs)))
    for name in _curves(runs):
        courses = []
        for run, session in runs:
            with session.lock:
                process = session.state.primary
                series = process.series.get(_own(name, session)) if process else None
                courses.append((run, Course.of(run, series) if series is not None else None))
        lines += ["", *_table(_rows(name, courses))]
        lines += [f"{text.safe(run)}: {course.remark}" for run, course in courses if course and course.remark]
    return "\n".join(lines)


def _states(runs: Sequence[tuple[str, Session]]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("run", "state", "last step", "rate")]
    for run, session in runs:
        with session.lock:
            process = session.state.primary
            state = session.entry.state if session.entry else "–"
            step = process.x if process and process.steps else None
            rows.append((run, state, text.count(step), text.rate(process.rate if process else None)))
    return rows


_MAIN = ""
"""Stands for the training loss, whatever it is called in each run."""


def _curves(runs: Sequence[tuple[str, Session]]) -> list[str]:
    """The training loss, and the losses on other data that two runs or more have."""
    found: list[str] = []
    for _, session in runs:
        with session.lock:
            process = session.state.primary
            found += evaluation_losses(process.series) if process else []
    return [_MAIN, *(name for name in dict.fromkeys(found) if found.count(name) > 1)]


def _own(name: str, session: Session) -> str:
    process = session.state.primary
    return name or (main_curve(process.series) or "" if process else "")


def _rows(name: str, courses: Sequence[tuple[str, Course | None]]) -> list[tuple[str, ...]]:
    base = courses[0][1]
    rows: list[tuple[str, ...]] = [
        (text.clip(name, 40) or "loss, smoothed", "last", "lowest", "at step", f"less {courses[0][0]}")
    ]
    for run, course in courses:
        if course is None:
            rows.append((run, "–", "–", "–", "not measured"))
            continue
        if not len(course.y):
            rows.append((run, text.number(course.last), "–", "–", "none finite"))
            continue
        lowest = int(course.y.argmin())
        gap = course.less(base) if base is not None and course is not base else None
        rows.append(
            (
                run,
                text.number(course.last),
                text.number(float(course.y[lowest])),
                text.count(float(course.x[lowest])),
                "" if gap is None else f"{'+' if gap[1] > 0 else ''}{text.number(gap[1])} at step {text.count(gap[0])}",
            )
        )
    return rows


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """The first and the last column aligned left, the others right."""
    widths = [max(text.cell_width(text.safe(row[column])) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [
            text.fit(cell, width, right=0 < column < len(row) - 1 or (column == len(row) - 1 and len(row) < 5))
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()
