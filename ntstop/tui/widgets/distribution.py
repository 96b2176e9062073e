"""How long steps take: a histogram with its median and its tail."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from textual.app import ComposeResult

from ...run.process import ProcessState
from ...text import count, duration
from ..raster.ink import Ink
from ..raster.picture import Picture
from ..view import StepView
from ..workspace import Look
from .chart import PictureWidget
from .pane import Pane, Value, is_ascii, plain_if, value
from .phases import STEP_TIME, recent_steps

FENCE = 3.0
"""Interquartile ranges over the upper quartile at which the histogram ends (Tukey's far out); the last row holds all
that is above, so that a few evaluations do not squeeze all other steps into one bar."""
LABEL, SHARE = 9, 5
_EIGHTHS = " ▏▎▍▌▋▊▉█"


@dataclass(frozen=True, eq=False)
class Distribution:
    """Sorted seconds of the steps in view."""

    seconds: NDArray[np.float64]

    def quantile(self, share: float) -> float | None:
        """Seconds that this share of the steps stays below."""
        return float(np.quantile(self.seconds, share)) if len(self.seconds) else None

    def bins(self, rows: int) -> list[tuple[float, int]]:
        """(lower end, steps) of `rows` ranges of equal width; the last reaches to the slowest step."""
        if not len(self.seconds) or rows < 1:
            return []
        low, most = float(self.seconds[0]), float(self.seconds[-1])
        quarter, half, three = np.quantile(self.seconds, (0.25, 0.5, 0.75)).tolist()
        # Where most steps take the same time to the last bit, a twentieth of it is a difference.
        high = min(most, three + FENCE * max(three - quarter, half / 20))
        if high <= low:
            return [(low, len(self.seconds))]
        edges = np.linspace(low, high, rows + 1)[:-1] if high >= most else np.linspace(low, high, rows)
        place = np.clip(np.searchsorted(edges, self.seconds, side="right") - 1, 0, rows - 1)
        counts = np.bincount(place, minlength=rows)
        return [(float(edge), int(number)) for edge, number in zip(edges, counts, strict=True)]


def step_times(process: ProcessState, view: StepView) -> Distribution:
    """The newest steps in view that are known one by one."""
    return Distribution(np.sort(recent_steps(process, view)[1]))


def draw_distribution(
    told: Distribution, width: int, height: int, *, at: tuple[str, float] | None = None, ascii_only: bool = False
) -> Picture:
    """A bar a range of step times; the rows of p50, p95 and p99 are named, and that of a step: its name and seconds."""
    picture = Picture.blank(width, height)
    bins = told.bins(height)
    if not bins:
        picture.write(0, 2, "no step times yet", Ink.DIM)
        return plain_if(ascii_only, picture)
    most, total = max(number for _, number in bins), len(told.seconds)
    edges = [edge for edge, _ in bins]
    names = _names(told, edges)
    pointed = {} if at is None else {_row_of(at[1], edges): f"{'<' if ascii_only else '◂'} {at[0]}"}
    room = max(width - LABEL - SHARE - 12, 1)
    for row, (edge, number) in enumerate(bins):
        picture.write(row, 1, duration(edge, LABEL - 1), Ink.DIM)
        if row and row == len(bins) - 1 and told.seconds[-1] > edge + 1.01 * (bins[1][0] - bins[0][0]):
            picture.write(row, 0, ">" if ascii_only else "≥", Ink.DIM)
        length = number / most * room
        bar = "#" * round(length) if ascii_only else "█" * int(length) + _EIGHTHS[int(length % 1 * 8)].strip()
        end = picture.write(row, LABEL + 2, bar or ("" if not number else "." if ascii_only else "▏"), Ink.LINE_0)
        if number:
            few = "1 step" if number == 1 else f"{count(number)} steps"
            share = f"{100 * number / total:.0f}%" if number / total > 0.005 else few
            end = picture.write(row, end + 1, share, Ink.DIM)
        if row in names:
            end = picture.write(row, end + 1, names[row], Ink.STRONG)
        if row in pointed:
            picture.write(row, min(end + 1, width - len(pointed[row])), pointed[row], Ink.CURSOR)
    return plain_if(ascii_only, picture)


def _names(told: Distribution, edges: list[float]) -> dict[int, str]:
    """Row to the quantiles that lie in it."""
    rows: dict[int, list[str]] = {}
    for share in (50, 95, 99):
        at = told.quantile(share / 100)
        if at is not None:
            rows.setdefault(_row_of(at, edges), []).append(f"p{share}")
    return {row: " ".join(names) for row, names in rows.items()}


def _row_of(seconds: float, edges: list[float]) -> int:
    return max(int(np.searchsorted(edges, seconds, side="right")) - 1, 0)


def quantiles(told: Distribution) -> list[Value]:
    """p50, p95 and p99 for a title; a unit that all have stands behind the last alone."""
    found = [(share, at) for share in (50, 95, 99) if (at := told.quantile(share / 100)) is not None]
    parts = [(f"p{share}", *duration(at).rsplit(" ", 1)) for share, at in found]
    is_one = len({part[2:] for part in parts}) == 1
    return [value(part[1] if is_one and part is not parts[-1] else " ".join(part[1:]), key=part[0]) for part in parts]


class Histogram(PictureWidget):
    """The bars on the screen."""

    told = Distribution(np.empty(0))
    at: tuple[str, float] | None = None
    """The step at the cursor, and its seconds."""

    def draw(self, width: int, height: int) -> Picture:
        """The bars as they are."""
        return draw_distribution(self.told, width, height, at=self.at, ascii_only=is_ascii(self.app))


class DistributionPane(Pane):
    """The distribution of the step time."""

    NAME = "spread"
    HELP = (
        "How long the newest 4,096 steps in view took, and where among them the step at the cursor lies. ≥: the last "
        "row holds all that are slower. p95: all but a twentieth of the steps took less."
    )

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.bars = Histogram()
        self.told = Distribution(np.empty(0))

    def body(self) -> ComposeResult:
        """The bars."""
        yield self.bars

    def gather(self, look: Look) -> None:
        """The step times in view."""
        self.told = step_times(look.process, look.view)
        cursor = look.view.cursor
        took = look.reading(STEP_TIME)
        self.bars.at = None if cursor is None or took.y is None else (count(took.x), took.y)

    def present(self) -> None:
        """Bars, and the quantiles in the title."""
        self.bars.told = self.told
        self.bars.redraw()
        self.head(quantiles(self.told))
