"""A loss that swings about its level, further with every swing: a wave of a few points to a few percent of the run.

Windows of 32 elements, at every scale of 1, 2, 4, … points an element. In each a wave whose amplitude changes linearly
is fitted to what a parabola leaves over: noise has no period, however it grows, and neither has a spike. What stands in
a window costs the same at each scale, so that a point costs the same however long the run is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..thresholds import threshold
from .waves import FEWEST, TREND, WINDOW, fitted, set_in

Array = NDArray[np.float64]

SWING = threshold(
    "divergence.swing",
    0.25,
    meaning="Share of its level by which a loss that swings more and more must leave it, to both sides. Raised, only "
    "wider swings are told.",
    source="as much as a spike must rise; from a tenth on no healthy AlgoPerf run is told",
    low=0.01,
    high=10.0,
)
FIT = threshold(
    "divergence.swing-fit",
    0.8,
    meaning="Share of the variance of 32 points that one growing wave must explain. Raised, less regular swings are "
    "not told.",
    source="measured: in healthy AlgoPerf runs whose swings seem to grow it is 0.69 at most; of independent normal "
    "noise one window in 2 million comes to it (beta distribution, 23 periods)",
    low=0.3,
    high=1.0,
)
EVERY: Final = 4
"""Elements from one look to the next."""
GROWTH: Final = 1.5
"""Times the amplitude at the first element of a window that the one at the last must be."""
GROWN: Final = 4.0
"""And sigmas of what the wave leaves over by which it must be more: 4.6 standard errors of the difference. Without it
19 of 20 steady waves with a noise of a third of theirs were told in 2,000 points."""
STEADY: Final = 1.1
"""Times that each third must deviate more than the one before."""
CREST: Final = 0.5
"""Share of the growth by which the crests must have climbed. Those of an epoch's stairs in a descent do not."""
REST: Final = 0.1
"""Share of the points up to now that a period may last: longer ones are a schedule, or the data."""
TURN: Final = 0.01
TURNS: Final = 2
"""Relative move of the rate that counts as one. A rate that turns twice in a window swings itself, or restarts."""
SIGNED_Z: Final = 8.0
"""Sigmas of what the wave leaves over. A loss that can be negative has no scale of its own, as in `divergence`."""
CALM: Final = 0.5
"""Share of the amplitude it was told at under which it is over."""
THIRDS: Final = (slice(0, 11), slice(11, 21), slice(21, WINDOW))


@dataclass(frozen=True, slots=True)
class Swing:
    """A wave that grows: shares of the level where `logs`, else in the unit of the loss."""

    first_x: int
    last_x: int
    period: int
    """Steps."""
    before: float
    """Amplitude at `first_x`."""
    now: float
    level: float
    low: tuple[int, float]
    high: tuple[int, float]
    """Step and loss of the lowest and the highest element of the window."""
    noise: float
    """One sigma of what the wave leaves over."""
    rate: float | None
    logs: bool
    scale: int
    over: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """One window: the number of points it ends with, how far it deviates (as an amplitude), and a wave, if it has."""

    end: int
    scale: int
    deviation: float
    last_x: int
    found: Swing | None


NO_WINDOWS: Final = np.empty((0, 4, WINDOW))
NO_PAIRS: Final = np.empty((4, 0))


class _Scale:
    """Elements of equal size (rows: value, step, rate, epoch): the newest `WINDOW`, and those that wait for a look."""

    def __init__(self) -> None:
        self._seen = self._paired = self._waiting = 0
        self._held = [NO_PAIRS]

    def take(self, new: Array, least: float) -> tuple[Array, int, Array]:
        """Windows that end with the new elements, (looks, 4, 32); how many elements the first ends with; new pairs.

        No window where the values of all of them differ by less than `least`."""
        self._held.append(new)
        self._waiting += new.shape[1]
        begin, end = self._seen, self._seen + self._waiting
        windows = NO_WINDOWS
        if end // EVERY == begin // EVERY:
            return windows, 0, NO_PAIRS
        held = np.concatenate(self._held, axis=1)
        gone = end - held.shape[1]
        first = max(WINDOW, (begin // EVERY + 1) * EVERY)
        if first <= end and held[0].max() - held[0].min() >= least:
            slid = np.lib.stride_tricks.sliding_window_view(held, WINDOW, axis=1)
            windows = slid[:, first - WINDOW - gone :: EVERY].transpose(1, 0, 2)
        even = end // 2 * 2
        pairs = held[:, self._paired - gone + 1 : even - gone : 2].copy()
        pairs[0] = (pairs[0] + held[0, self._paired - gone : even - gone : 2]) / 2
        self._seen, self._paired, self._waiting, self._held = end, even, 0, [held[:, -WINDOW:].copy()]
        return windows, first, pairs


class SwingDetector:
    """Feed it every point, in stretches of any length: what it tells is the same. Works on log loss while every loss
    was positive, on plain ones from the first that was not."""

    def __init__(self, swing: float = SWING.value, fit: float = FIT.value) -> None:
        self._least, self._fit = swing, fit
        self._logs = True
        self._scales: list[_Scale] = []
        self.current: Swing | None = None
        self._calm = 0.0
        """Deviation under which the current one is over."""

    def clear(self) -> None:
        """Another attempt: what came before says nothing about what comes."""
        self._scales = []
        self.current = None

    def extend(self, x: Array, y: Array, rate: Array, epoch: Array) -> list[Swing]:
        """Take in finite points, NaN where a rate or an epoch is not known: the swings that began, grew or ended."""
        if self._logs and not (y > 0).all():
            cut = int(np.argmin(y > 0))
            told = self.extend(x[:cut], y[:cut], rate[:cut], epoch[:cut]) if cut else []
            self._logs, self._scales = False, []
            self._calm *= 1.0 if self.current is None else self.current.level
            return told + self.extend(x[cut:], y[cut:], rate[cut:], epoch[cut:])
        # A curve that is as calm as most are costs no look; the end of a swing is one.
        least = math.log1p(self._least) if self._logs and self.current is None else 0.0
        new, looks, depth = np.array([np.log(y) if self._logs else y, x, rate, epoch]), list[Look](), 0
        while new.shape[1]:
            if depth == len(self._scales):
                self._scales.append(_Scale())
            windows, first, new = self._scales[depth].take(new, least)
            looks += self._look(windows, first, 1 << depth) if len(windows) else []
            depth += 1
        if self.current is None and not any(look.found for look in looks):
            return []
        steps = (self._step(look) for look in sorted(looks, key=lambda look: (look.end, look.scale)))
        return [swing for swing in steps if swing is not None]

    def _step(self, look: Look) -> Swing | None:
        """What one look changes."""
        current, found = self.current, look.found
        if found is not None and (current is None or CALM * found.now >= GROWTH * self._calm):
            if current is not None:
                found = replace(found, first_x=current.first_x, before=current.before)
            self.current, self._calm = found, CALM * found.now
            return found
        if current is None or look.scale != current.scale or look.deviation >= self._calm:
            return None
        self.current = None
        return replace(current, last_x=look.last_x, over=True)

    def _look(self, windows: Array, first: int, scale: int) -> list[Look]:
        """A look at each window; only those that swing wide, and more in each third, get a wave fitted."""
        values = windows[:, 0]
        left = values - (values @ TREND) @ TREND.T
        squares = left * left
        early, middle, late = (squares[:, third].mean(axis=1) for third in THIRDS)
        deviation = np.sqrt(2 * squares.mean(axis=1))
        steadily = (middle >= STEADY**2 * early) & (late >= STEADY**2 * middle)
        least = math.log1p(self._least) if self._logs else self._least * np.abs(values.mean(axis=1))
        wide = (steadily & (deviation >= least / 2) & (deviation > 0)).tolist()
        last = windows[:, 1, -1].tolist()
        return [
            Look(
                (first + EVERY * at) * scale,
                scale,
                dev,
                int(last[at]),
                self._wave(windows[at], (first + EVERY * at) * scale, scale) if wide[at] else None,
            )
            for at, dev in enumerate(deviation.tolist())
        ]

    def _wave(self, window: Array, seen: int, scale: int) -> Swing | None:
        """The wave that a window holds, if it grows far enough and nothing planned makes it."""
        values, x, rate, epoch = window
        wave = fitted(values, coarse=scale > 1)
        if wave.share < self._fit or WINDOW / wave.periods * scale > REST * seen:
            return None
        level, before, now = float(values.mean()), wave.before, wave.now
        late, crest = values[THIRDS[2]], values[THIRDS[2]].max() - values[THIRDS[0]].max()
        least = math.log1p(self._least) if self._logs else max(self._least * abs(level), SIGNED_Z * wave.noise)
        if min(now, float(np.ptp(values))) < least or now < GROWTH * before or crest < CREST * (now - before):
            return None
        if now - before < GROWN * wave.noise:
            return None
        if _turns(rate.tolist()) >= TURNS or _by_epoch(epoch, wave.periods):
            return None
        if set_in(values, wave.periods) >= wave.share:
            return None
        low, high = (int(at) + THIRDS[2].start for at in (late.argmin(), late.argmax()))
        unit = np.exp if self._logs else float
        return Swing(
            first_x=int(x[0]),
            last_x=int(x[-1]),
            period=max(1, round(float(x[-1] - x[0]) / (WINDOW - 1) * WINDOW / wave.periods)),
            before=before,
            now=now,
            level=float(unit(level)),
            low=(int(x[low]), float(unit(values[low]))),
            high=(int(x[high]), float(unit(values[high]))),
            noise=wave.noise,
            rate=float(rate[-1]) if math.isfinite(rate[-1]) else None,
            logs=self._logs,
            scale=scale,
        )


def _turns(rates: list[float]) -> int:
    """How often a rate that is known has turned from rising to falling or back."""
    last, way, turns = math.nan, 0, 0
    for rate in rates:
        if math.isnan(last):
            last = rate
        elif abs(rate - last) > TURN * max(abs(rate), abs(last)):
            turns += way == (-1 if rate > last else 1)
            way, last = (1 if rate > last else -1), rate
    return turns


def _by_epoch(epoch: Array, periods: float) -> bool:
    """Whether there are as many epochs in the window as periods."""
    passed = float(epoch[-1] - epoch[0])
    return passed >= FEWEST - 1 and abs(passed - periods) <= 1.0
