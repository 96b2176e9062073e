"""A wave whose amplitude changes linearly, fitted to a window of a curve: least squares over a grid of periods."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

WINDOW: Final = 32
"""Elements."""
FEWEST: Final = 4.0
MOST: Final = 15.0
"""Periods in a window: fewer do not show a growth over three of them, and with 16 a period is two elements, of which
the phase can't be told."""
FREE: Final = WINDOW - 7
"""Degrees of freedom that a parabola and a wave leave."""


@dataclass(frozen=True, slots=True)
class Wave:
    """The wave that explains most of what a parabola leaves over."""

    periods: float
    """How many there are in the window."""
    share: float
    """Of the variance, 0 to 1."""
    before: float
    """Amplitude at the first element, in the unit of the curve."""
    now: float
    """And at the last."""
    noise: float
    """One sigma of what the wave leaves over."""


def _tables() -> tuple[Array, Array, Array, Array]:
    """An orthonormal basis of the parabolas; numbers of periods, and for each an orthonormal basis of its growing waves
    and what turns a window into their coefficients (cosine, sine, both times a line from -1 to 1)."""
    at = np.linspace(-1.0, 1.0, WINDOW)
    trend, _ = np.linalg.qr(np.stack([np.ones(WINDOW), at, at * at], axis=1))
    periods = np.arange(FEWEST, MOST + 0.25, 0.5)
    bases, solvers = [], []
    for number in periods:
        turn = 2 * math.pi * number * np.arange(WINDOW) / WINDOW
        waves = np.stack([np.cos(turn), np.sin(turn), at * np.cos(turn), at * np.sin(turn)], axis=1)
        waves -= trend @ (trend.T @ waves)
        bases.append(np.linalg.qr(waves)[0].T)
        solvers.append(np.linalg.pinv(waves))
    return trend, periods, np.array(bases), np.array(solvers)


TREND, PERIODS, BASES, SOLVERS = _tables()
COARSE: Final = int((PERIODS <= 2 * FEWEST).sum())


def fitted(values: Array, *, coarse: bool) -> Wave:
    """The best wave in `WINDOW` values that do not all lie on a parabola.

    `coarse`: of twice the fewest periods at most, since a window at half the scale shows the others."""
    left = values - TREND @ (TREND.T @ values)
    total = float(left @ left)
    shares = ((BASES @ left) ** 2).sum(axis=1) / total
    best = int(np.argmax(shares[:COARSE] if coarse else shares))
    share = min(1.0, float(shares[best]))
    cosine, sine, more_cosine, more_sine = (SOLVERS[best] @ left).tolist()
    before, now = (math.hypot(cosine + at * more_cosine, sine + at * more_sine) for at in (-1.0, 1.0))
    return Wave(float(PERIODS[best]), share, before, now, math.sqrt(total * (1 - share) / FREE))


def set_in(values: Array, periods: float) -> float:
    """Share of what a parabola leaves over that a steady wave explains which sets in where that fits best."""
    total = float(((values - TREND @ (TREND.T @ values)) ** 2).sum())
    turn = 2 * math.pi * periods * np.arange(WINDOW) / WINDOW
    waves, best = np.stack([np.cos(turn), np.sin(turn)], axis=1), total
    for begin in range(WINDOW // 8, WINDOW - WINDOW // 8):
        columns = np.hstack([TREND, np.where(np.arange(WINDOW)[:, None] < begin, 0.0, waves)])
        left = values - columns @ np.linalg.lstsq(columns, values, rcond=None)[0]
        best = min(best, float(left @ left))
    return 1.0 - best / total
