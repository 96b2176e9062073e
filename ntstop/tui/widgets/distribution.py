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
from .pane import Pane, is_ascii, plain_if, value
from .phases import recent_steps

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


def draw_distribution(told: Distribution, width: int, height: int, *, ascii_only: bool = False) -> Picture:
    """A bar a range of step times; the rows of p50, p95 and p99 are named."""
    picture = Picture.blank(width, height)
    bins = told.bins(height)
    if not bins:
        picture.write(0, 2, "no step times yet", Ink.DIM)
        return plain_if(ascii_only, picture)
    most, total = max(number for _, number in bins), len(told.seconds)
    names = _names(told, [edge for edge, _ in bins])
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
        picture.write(row, end + 1, names.get(row, ""), Ink.STRONG)
    return plain_if(ascii_only, picture)


def _names(told: Distribution, edges: list[float]) -> dict[int, str]:
    """Row to the quantiles that lie in it."""
    rows: dict[int, list[str]] = {}
    for share in (50, 95, 99):
        at = told.quantile(share / 100)
        if at is not None:
            rows.setdefault(max(int(np.searchsorted(edges, at, side="right")) - 1, 0), []).append(f"p{share}")
    return {row: " ".join(names) for row, names in rows.items()}


class Histogram(PictureWidget):
    """The bars on the screen."""

    told = Distribution(np.empty(0))

    def draw(self, width: int, height: int) -> Picture:
        """The bars as they are."""
        return draw_distribution(self.told, width, height, ascii_only=is_ascii(self.app))


class DistributionPane(Pane):
    """The distribution of the step time."""

    NAME = "distribution"
    HELP = "How long the newest 4,096 steps in view took; ≥: the last row holds all that are slower."

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

    def present(self) -> None:
        """Bars, and the quantiles in the title."""
        self.bars.told = self.told
        self.bars.redraw()
        quantiles = [(name, self.told.quantile(share)) for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))]
        self.head([value(duration(at), key=name) for name, at in quantiles if at is not None])
