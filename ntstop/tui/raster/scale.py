"""Axes: which values stand where, and which of them get a label."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...text import exponent
from .spec import Floats

TINY = 1e-290
"""Below this a span cannot be divided into ticks; it counts as none."""
HUGE = 1e300
DECADES = -324.0, 308.0
"""log10 of the smallest and the largest float."""
FAR_OFF = 1e6
"""Heights of the axis beyond which it does not matter how far something is off it."""
FARTHEST = 1e15
"""Steps beyond this are no steps."""
_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def nice_step(span: float, most: int) -> float:
    """The smallest 1, 2 or 5 × 10ⁿ that divides `span` into at most `most` parts."""
    raw = max(span / max(most, 1), TINY)
    power = 10.0 ** math.floor(math.log10(raw))
    for factor in (1.0, 2.0, 5.0):
        if factor * power >= raw * (1 - 1e-9):
            return factor * power
    return 10.0 * power


def steady_range(first: float, last: float) -> tuple[float, float]:
    """A range of steps around `first`…`last` whose ends move in leaps of about a twentieth: no axis that crawls.

    Not finite or empty: (0, 1).
    """
    if not (abs(first) < FARTHEST and abs(last) < FARTHEST) or last < first:
        return 0.0, 1.0
    if last - first < max(abs(last), 1.0) * 1e-9:
        return first, first + max(abs(first) * 1e-6, 1.0)
    leap = nice_step(last - first, 20)
    return min(math.floor(first / leap) * leap, first), max(math.ceil(last / leap) * leap, last)


def step_range(wanted: tuple[float, float] | None, *steps: Floats) -> tuple[float, float]:
    """`wanted` if it is a range; else the rounded extent of all finite `steps`, (0, 1) without any."""
    if wanted is not None and max(map(abs, wanted)) < FARTHEST and wanted[1] - wanted[0] > max(map(abs, wanted)) * 1e-9:
        return wanted
    known = [part[np.abs(part) < FARTHEST] for part in steps]
    ends = [(float(part.min()), float(part.max())) for part in known if len(part)]
    if not ends:
        return 0.0, 1.0
    return steady_range(min(first for first, _ in ends), max(last for _, last in ends))


@dataclass(frozen=True, slots=True)
class XScale:
    """Steps to columns: `x0` is the middle of column 0, `x1` of the last of `columns`."""

    x0: float
    x1: float
    columns: int

    def columns_of(self, x: Floats) -> NDArray[np.int64]:
        """The column of each x; -1 where it is left of the range or not finite, `columns` where it is right of it."""
        last = self.columns - 1
        with np.errstate(all="ignore"):
            position = (x - self.x0) * (last / (self.x1 - self.x0)) + 0.5
            position = np.where(x > self.x1, self.columns, np.where(x >= self.x0, np.clip(position, 0, last + 0.5), -1))
        return position.astype(np.int64)

    def column(self, x: float) -> int:
        """`columns_of` for one x, in a fiftieth of the time."""
        if x > self.x1:
            return self.columns
        if not x >= self.x0:
            return -1
        last = self.columns - 1
        return int(min(max((x - self.x0) * (last / (self.x1 - self.x0)) + 0.5, 0.0), last + 0.5))

    def value(self, column: int) -> float:
        """The x in the middle of `column`, kept inside the range."""
        share = min(max(column, 0), self.columns - 1) / max(self.columns - 1, 1)
        return self.x0 + share * (self.x1 - self.x0)


@dataclass(frozen=True, slots=True)
class YScale:
    """Values to rows of dots, 0 at the bottom. `low` and `high` are log10 values on a log axis."""

    low: float
    high: float
    log: bool = False

    def position(self, values: Floats) -> Floats:
        """0 at the bottom of the axis, 1 at its top; outside of that where the value is off the axis; NaN stays NaN."""
        with np.errstate(all="ignore"):
            level = np.log10(values) if self.log else values
            position = (level / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        return np.clip(position, -FAR_OFF, FAR_OFF)

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """At most about `most` (position 0…1, label); a label is `%g` short and all have the same decimals."""
        values = log_ticks(self.low, self.high, most) if self.log else linear_ticks(self.low, self.high, most)
        positions = self.position(np.array(values, np.float64))
        return list(zip(positions.tolist(), tick_labels(values), strict=True))


def y_scale(low: float, high: float, log: bool, most: int) -> YScale:
    """The axis for `low`…`high`, opened up to whole or half ticks; equal ends stand in the middle of it.

    On a log axis both are log10 values.
    """
    if log:
        low, high = (min(max(end, DECADES[0]), DECADES[1]) for end in (low, high))
        if high - low < 0.02:
            return YScale(low - 0.05, high + 0.05, True)
        leap = 0.25 if high - low > 1.5 else 0.05
        return YScale(math.floor(low / leap + 1e-9) * leap, math.ceil(high / leap - 1e-9) * leap, True)
    low, high = min(max(low, -HUGE), HUGE), min(max(high, -HUGE), HUGE)
    size = max(abs(low), abs(high))
    if high - low <= max(size * 1e-9, TINY):
        pad = size * 0.05 if size > TINY else 1.0
        return YScale(low - pad, high + pad)
    half = nice_step(high - low, most) / 2
    return YScale(math.floor(low / half + 1e-9) * half, math.ceil(high / half - 1e-9) * half)


def linear_ticks(low: float, high: float, most: int) -> list[float]:
    """The multiples of a nice step from `low` to `high`."""
    step = nice_step(high - low, most)
    first = math.ceil(low / step - 1e-6)
    return [index * step for index in range(first, math.floor(high / step + 1e-6) + 1)]


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """Powers of ten from 10^low to 10^high, thinned to `most`; a few of them get 2 and 5 too, none linear ticks."""
    powers = range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1)
    if len(powers) >= 3 or (len(powers) == 2 and most < 4):
        every = -(-len(powers) // max(most, 1))
        return [10.0**power for power in powers if power % every == 0]
    factors = [
        factor * 10.0**power
        for power in range(math.floor(low), math.floor(high) + 1)
        for factor in (1, 2, 5)
        if low - 1e-9 <= math.log10(factor) + power <= high + 1e-9
    ]
    if len(factors) >= 2 and high - low > 0.7:
        return factors
    return [value for value in linear_ticks(10.0**low, 10.0**high, most) if value > 0]


def tick_labels(values: list[float]) -> list[str]:
    """Short labels with the same number of decimals, or all with an exponent where that is shorter."""
    if not values:
        return []
    size = max(map(abs, values))
    smallest = min((abs(value) for value in values if value), default=1.0)
    if size >= 1e15 or (smallest < 1e-3 and size < 1e-2) or size / smallest > 1e5:
        return [_power(value) for value in values]
    scale, unit = next((pair for pair in _UNITS if size >= 10 * pair[0]), (1.0, ""))
    if unit and size / smallest >= 99:  # decades: 100 and 10k, not 0.1k and 10.0k
        return [_own_unit(value) for value in values]
    values = [value / scale for value in values]
    for decimals in range(7):
        if all(abs(round(value, decimals) - value) <= 1e-9 * max(abs(value), 1e-9) for value in values):
            break
    if smallest < 1 and size / smallest >= 99:  # decades: 0.01, 0.1, 1 and not 0.01, 0.10, 1.00
        return [f"{value:g}{unit}" for value in values]
    return [f"{value:.{decimals}f}{unit}" if value or not unit else "0" for value in values]


def _own_unit(value: float) -> str:
    """`100`, `10k`."""
    scale, unit = next((pair for pair in _UNITS if abs(value) >= pair[0]), (1.0, ""))
    return f"{value / scale:g}{unit}"


def _power(value: float) -> str:
    """`1e-4`, `2.5e6`: as few digits as tell it."""
    if value == 0:
        return "0"
    for decimals in range(3):
        text = exponent(value, decimals)
        if abs(float(text) - value) <= 1e-6 * abs(value):
            return text
    return exponent(value, 3)


def step_label(step: float, spacing: float) -> str:
    """A step number for an axis with ticks `spacing` apart: `800`, `12k`, `12.5k`, `1.25M`."""
    for scale, unit in ((1e6, "M"), (1e3, "k")):
        if abs(step) >= scale and spacing >= scale / 100:
            text = f"{step / scale:.2f}".rstrip("0").rstrip(".")
            return text + unit
    return f"{step:,.0f}" if spacing >= 1 else f"{step:g}"
