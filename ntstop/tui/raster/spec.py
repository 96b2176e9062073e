"""What is to be drawn, as data: nothing here knows a terminal; the same specification gives the same picture."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .ink import Ink

Floats = NDArray[np.float64]


class Glyphs(Enum):
    """Which characters the terminal can draw."""

    BRAILLE = "braille"
    ASCII = "ascii"


class Colours(Enum):
    """How much colour there is: what a ground cannot tell is told by characters."""

    MANY = "many"
    FEW = "few"
    """Sixteen: no shades, so surfaces are made of dots."""
    NONE = "none"


@dataclass(frozen=True, eq=False, slots=True)
class Trace:
    """One curve: raw points, or the buckets of a longer one.

    `x` and `y` have one shape (n,); x goes up within a segment. With `lo` and `hi` (same shape) a quiet band is drawn
    between them and the line goes through the means of `y`; without, the line covers all values of its column, so that
    no spike is lost. NaN or Inf in `y` breaks the line. With `nonfinite` (how many values of each bucket were not
    finite) those are counted and marked, and a NaN in `y` beside a zero is only a gap; without it each one in `y`
    counts. The line also breaks where `segment` changes (a restart that went back in steps).
    """

    x: Floats
    y: Floats
    lo: Floats | None = None
    hi: Floats | None = None
    nonfinite: NDArray[np.integer] | None = None
    segment: NDArray[np.integer] | None = None
    label: str = ""
    ink: Ink = Ink.LINE_0
    mark: str = ""
    """A character that is set on the line now and then, and before its label."""
    kind: Literal["line", "points"] = "line"
    """"points": a glyph at each value, for what is measured now and then (an evaluation)."""


@dataclass(frozen=True, slots=True)
class Span:
    """A shaded stretch of the x axis, `x0` to `x1` in steps."""

    x0: float
    x1: float
    ink: Ink = Ink.SPAN


@dataclass(frozen=True, slots=True)
class Marker:
    """Something that happened at step `x`: a glyph on the x axis."""

    x: float
    kind: Literal[
        "eval", "checkpoint", "epoch", "resume", "mark", "note", "sampling", "info", "warning", "critical"
    ] = "mark"


@dataclass(frozen=True, slots=True)
class Level:
    """A horizontal line at `low`, or a range up to `high`, in the units of the y axis."""

    low: float
    high: float | None = None
    label: str = ""
    ink: Ink = Ink.HEALTHY


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartSpec:
    """A chart over steps. `width` and `height` are cells and are filled in by the widget.

    `x_range` None: the extent of the data, rounded (see `scale.steady_range`). `y_range` None: the extent of the lines,
    rounded to ticks so that the axis stands still while they grow. Later traces are drawn over earlier ones.
    """

    traces: tuple[Trace, ...] = ()
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    log: bool = False
    """A log10 y axis; values at or below zero are left out, and the legend says how many."""
    spans: tuple[Span, ...] = ()
    markers: tuple[Marker, ...] = ()
    levels: tuple[Level, ...] = ()
    cursor_x: float | None = None
    width: int = 0
    height: int = 0
    gutter: int = 8
    """Cells for the y labels and the axis; equal gutters align panes that stand below each other."""
    legend: bool = True
    margin: int = 0
    """Cells right of the plot for the curves' labels, each at the height where its curve ends; 0: none."""
    empty: str = "no data yet"
    glyphs: Glyphs = Glyphs.BRAILLE
    colours: Colours = Colours.MANY
    unit: str = field(default="")
    """Written behind the values of the legend."""


@dataclass(frozen=True, slots=True)
class Box:
    """Where the plot stands inside a picture, in cells."""

    left: int
    top: int
    width: int
    height: int

    @property
    def right(self) -> int:
        """The column after the last."""
        return self.left + self.width

    @property
    def bottom(self) -> int:
        """The row after the last."""
        return self.top + self.height
