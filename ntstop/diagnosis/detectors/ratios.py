"""How far one step moves the weights, as a share of what they are: the middle layer of a sample, and when it counts."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .gradflow import Values, numbers

SPARSE = 0.5
"""Share of zeros in a gradient from which most of a layer is not meant to move in a step: an embedding."""
SMOOTH = 64
APART = 8.0
"""Times the median layer that one layer alone must move. Measured: in healthy small trainings 3.9 at most, in one whose
head has 32 times the rate of the others 14."""
RISEN = 1.5
"""A rate that has since risen by half: the sample belongs to a warm-up."""
WAIT = 64
"""Steps after the first of two samples before their rates are known not to be the beginning of a warm-up: however long
it is, a linear one that starts near zero has doubled the rate of step 8 within 8 more."""


@dataclass(frozen=True, slots=True)
class Ratios:
    """One sample: the median over the layers that count, and its extremes."""

    x: int
    median: float
    low: tuple[str, float]
    high: tuple[str, float]
    layers: int
    rate: float | None
    """Learning rate of its step."""


def summarize(
    x: int,
    names: Sequence[str],
    wanted: Sequence[int],
    ratios: Values,
    zeros: Values | None,
    grads: Values | None,
    unlearned: NDArray[np.bool_],
    rate: float | None,
) -> Ratios | None:
    """The sample over the layers `wanted`; None when no layer of it counts.

    Left out are layers that began at zero (`unlearned`: their share grows without bound), sparse gradients, and what
    neither has a gradient nor moves: it was not used in this step.
    """
    size = len(names)
    ratio = numbers(ratios, size)
    sparse = numbers(zeros, size)
    unused = np.isnan(numbers(grads, size)) & (ratio == 0.0) if grads is not None else np.zeros(size, np.bool_)
    counts = np.isfinite(ratio) & ~unlearned & ~(sparse >= SPARSE) & ~unused
    known = [index for index in wanted if counts[index]]
    if not known:
        return None
    values = ratio[known]
    low, high = int(np.argmin(values)), int(np.argmax(values))
    return Ratios(
        x,
        float(np.median(values)),
        (names[known[low]], float(values[low])),
        (names[known[high]], float(values[high])),
        len(known),
        rate,
    )


class RatioBand:
    """Feed it the samples; asked at every block whether they leave the band by now."""

    def __init__(self, high: float, held: float, low: float) -> None:
        self._high, self._held, self._low = high, held, low
        self.samples: deque[Ratios] = deque(maxlen=4)

    def add(self, sample: Ratios) -> None:
        """The newest sample."""
        self.samples.append(sample)

    def above(self) -> bool:
        """Two samples in a row whose geometric mean is over `high`, or three after step 30 that are over `held`.

        The first is the start of a run, where an Adam step is the rate itself and the weights are still small.
        """
        samples = list(self.samples)
        if len(samples) >= 2 and samples[-1].median * samples[-2].median >= self._high**2:
            return True
        return len(samples) >= 3 and samples[-3].x >= 30 and all(one.median >= self._held for one in samples[-3:])

    def alone(self) -> str | None:
        """The one layer whose geometric mean over two samples in a row is over `high`, far from all others."""
        pair = list(self.samples)[-2:]
        if len(pair) < 2 or pair[0].high[0] != pair[1].high[0]:
            return None
        apart = all(one.high[1] >= APART * one.median for one in pair)
        return pair[1].high[0] if apart and pair[0].high[1] * pair[1].high[1] >= self._high**2 else None

    def below(self, x: int, rate: float | None, peak: float) -> bool:
        """Two samples in a row under `low`, at a rate that is no warm-up and no end of a schedule, seen from step `x`.

        `rate`: the present one, `peak`: the highest so far.
        """
        samples = list(self.samples)[-2:]
        if len(samples) < 2 or any(one.median >= self._low for one in samples) or x < samples[0].x + WAIT:
            return False
        rates = [one.rate for one in samples]
        if rate is None or any(known is None for known in rates):
            return True
        return all(known is not None and 0.5 * peak <= known and rate <= RISEN * known for known in rates)


def follow(level: float | None, losses: NDArray[np.float64]) -> float:
    """The smoothed loss after these points: the mean over some `SMOOTH` points."""
    mean = float(losses.mean())
    if level is None:
        return mean
    return level + (mean - level) * (1.0 - (1.0 - 1.0 / SMOOTH) ** len(losses))
