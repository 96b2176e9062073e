"""A loss that jumps up: where, how far, and whether it comes back."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..thresholds import threshold
from .baseline import SIZE, Baseline

MIN_BASELINE = 16
"""Points before anything is called a spike."""
HIGH_Z = threshold(
    "loss-spike.z",
    10.0,
    unit="spreads",
    meaning="Spreads of the usual noise by which a point must lie over the level to be high. Raised, small spikes "
    "are not told.",
    source="measured: with 25 % and 5 in a row it fired on 4.3 % of 801 healthy public runs, most of those at restarts "
    "of the learning rate, which are quiet here",
    low=2.0,
    high=1000.0,
)
HIGH_RISE = threshold(
    "loss-spike.rise",
    0.25,
    meaning="Share of the usual level by which a point must lie over it to be high. Raised, small spikes are not told.",
    source="the same measurement",
    low=0.01,
    high=100.0,
)
WARMING = 0.5
"""Share of `HIGH_Z` that is enough while the rate rises to its first peak. Nothing planned makes a loss rise then, and
five points in a row at five sigmas are no noise either; the ten are for what happens at a rate that is settled."""
WARMING_RUN = 2
"""And two points do then, in place of three, when they rise as far together as five just high ones."""
HIGH_RUN = 5
SHORT_RUN = 3
"""Three points in a row are enough when they rise together as far as five just high ones."""
STEEP = 2.0
"""And fewer when they rise together twice as far: two by a factor of 3 each, a single one by 9. No point of a healthy
AlgoPerf run does that away from a restart."""
CALM_Z = 5.0
CALM_RISE = math.log(1.10)
"""Back to normal: under half the entry condition (hysteresis), 5 points in a row."""
CALM_RUN = 5
LINGER = threshold(
    "loss-spike.linger",
    40.0,
    unit="points",
    meaning="Points after which a spike that is not over is lingering, a warning. Raised, longer spikes are notes "
    "only.",
    source="measured: the longest spikes of healthy AlgoPerf runs that came back took 22 to 28 points; from 36 to 64 "
    "nothing changes",
    low=5.0,
)
YOUNG_SHARE = 0.25
YOUNG_POINTS = 10
"""Fewer points, but no fewer than ten, are enough where they are a quarter of all there are: the longest of those
spikes took 14 % of the points up to their end."""
LINGER_SHARE = 0.02
"""And 2 % of the points seen so far: in a long run it takes longer to matter, within the 5 % that it may take."""
COMING_BACK = 0.25
"""A spike that has come down by a quarter of its first height is on its way back, for `PATIENCE` times as long."""
PATIENCE = 2
RECENT = 16
KEPT = 64
"""Newest points that are kept as they were."""

OUTLIER_POINTS = 3
"""A spike whose peak is one of its first three points was thrown up by a batch or two: what follows is the way back."""
OUTLIER_HEIGHT = 2.0
"""And the peak rose at least twice as far as what follows."""

State = Literal["rising", "lingering", "recovered"]


@dataclass(slots=True)
class Spike:
    """One excursion. `baseline` and `peak` are losses."""

    first_x: int
    baseline: float
    peak: float
    peak_x: int
    before: list[tuple[int, float]]
    state: State = "rising"
    points: int = 0
    last_x: int = 0
    last: float = 0.0
    peak_at: int = 1
    """Which of its points the peak was, from 1."""

    def outlier(self, level: float) -> bool:
        """Whether a batch or two have thrown the loss, at `level` now, up."""
        if self.peak_at > OUTLIER_POINTS:
            return False
        if min(self.baseline, level) > 0:
            return math.log(self.peak / self.baseline) >= OUTLIER_HEIGHT * math.log(level / self.baseline)
        return self.peak - self.baseline >= OUTLIER_HEIGHT * (level - self.baseline)


class SpikeDetector:
    """Works on log loss while every loss was positive, on plain differences from the first one that was not."""

    def __init__(self, z: float = HIGH_Z.value, rise: float = HIGH_RISE.value, linger: int = int(LINGER.value)) -> None:
        self._z, self._rise, self._linger = z, math.log1p(rise), linger
        self._warming = False
        self._seen = 0
        self._ended = -math.inf
        """How many points had been seen when the last spike was over."""
        self._early: list[float] = []
        """The first points of the open spike, at most `RECENT`."""
        self._baseline = Baseline()
        self._raw: deque[tuple[int, float]] = deque(maxlen=KEPT)
        self._logs = True
        self._quiet = 0
        self._fast = -math.inf
        self._run: list[tuple[int, float, float]] = []
        self._calm = 0
        self._recent: deque[float] = deque(maxlen=RECENT)
        self.spike: Spike | None = None

    @property
    def shaken(self) -> bool:
        """Whether a spike is open, or has been shorter ago than one may last."""
        return self.spike is not None or self._seen - self._ended < self._linger

    @property
    def logs(self) -> bool:
        """Whether the loss has been positive so far."""
        return self._logs

    def quiet(self, points: int = SIZE) -> Spike | None:
        """Learn the level anew, saying nothing for `points` (a planned rise of the rate, a resume).

        Returns the spike that was open, now recovered: what came before says nothing about what comes."""
        self._quiet = points
        self._fast = -math.inf
        self._baseline.clear()
        self._run.clear()
        ended, self.spike = self.spike, None
        if ended is not None:
            ended.state = "recovered"
        return ended

    def add(self, x: int, y: float, *, warming: bool = False) -> Spike | None:
        """The spike that opened or changed its state with this finite point, else None.

        `warming`: the learning rate is rising to its first peak."""
        self._seen += 1
        if warming != self._warming:
            self._warming, self._fast = warming, -math.inf
        if self._logs and y <= 0:
            return self._go_linear(x, y)
        if y <= self._fast and self.spike is None and not self._run:
            self._raw.append((x, y))
            self._push(math.log(y) if self._logs else y)
            return None
        value = math.log(y) if self._logs else y
        if self.spike is not None:
            return self._follow(self.spike, x, y, value)
        self._raw.append((x, y))
        if self._quiet > 0 or len(self._baseline) < MIN_BASELINE:
            self._quiet -= self._quiet > 0
            self._push(value)
            return None
        if value <= self._baseline.level + self._bound(self._baseline.spread):
            for _, _, pending in self._run:
                self._push(pending)
            self._run.clear()
            self._push(value)
            return None
        self._run.append((x, y, value))
        return self._open() if self._enough() else None

    def _enough(self) -> bool:
        """Whether the high points in a row are many, or few and very high."""
        number = len(self._run)
        if number >= HIGH_RUN or not self._logs:
            return number >= HIGH_RUN
        area = sum(pending - self._baseline.level for _, _, pending in self._run) / (HIGH_RUN * self._rise)
        return area >= STEEP or (number >= (WARMING_RUN if self._warming else SHORT_RUN) and area >= 1.0)

    def extend(self, x: Sequence[int], y: NDArray[np.float64]) -> int:
        """Take in finite points from the first on for as long as all are ordinary, exactly as `add` would one by one.

        Returns how many; with 0 it is for `add` to look.
        """
        if self.spike is not None or self._run or self._quiet > 0 or len(self._baseline) < SIZE:
            return 0
        if self._logs and not (y > 0).all():
            y = y[: int(np.argmin(y > 0))]
        values = list(map(math.log, y.tolist())) if self._logs else y.tolist()
        refreshes = self._baseline.ahead(values)
        ends = [end for end, _, _ in refreshes]
        limits = [self._fast, *(self._limit(level, spread) for _, level, spread in refreshes)]
        # The last refresh may be at the last point, with no stretch behind it.
        highest = np.maximum.reduceat(y, [0, *(end for end in ends if end < len(y))]).tolist() if len(y) else []
        taken, last = 0, None
        for index, high in enumerate(highest):
            if high > limits[index]:
                break
            taken = ends[index] if index < len(ends) else len(y)
            if index < len(ends):
                last = index
        if taken:
            self._seen += taken
            newest = slice(max(0, taken - KEPT), taken)
            self._raw.extend(zip(x[newest], y[newest].tolist(), strict=True))
            self._baseline.extend(values[:taken], None if last is None else refreshes[last])
            self._fast = limits[0 if last is None else last + 1]
        return taken

    def _bound(self, spread: float) -> float:
        """How far over the level a point must be to be high."""
        bound = self._z * spread * (WARMING if self._warming else 1.0)
        return max(bound, self._rise) if self._logs else bound

    def _limit(self, level: float, spread: float) -> float:
        """The loss up to which a point is ordinary without a second look."""
        line = level + self._bound(spread)
        return math.exp(min(line, 700.0)) if self._logs else line

    def _push(self, value: float) -> None:
        """An ordinary point. A new level makes a new limit, in losses, under which most points need no second look."""
        if not self._baseline.push(value):
            return
        learning = self._quiet > 0 or len(self._baseline) < MIN_BASELINE
        self._fast = -math.inf if learning else self._limit(self._baseline.level, self._baseline.spread)

    def _open(self) -> Spike:
        first_x = self._run[0][0]
        peak_x, peak, _ = max(self._run, key=lambda point: point[1])
        level = math.exp(self._baseline.level) if self._logs else self._baseline.level
        before = [point for point in self._raw if point[0] < first_x][-4:]
        self.spike = Spike(first_x, level, peak, peak_x, before, points=len(self._run))
        self.spike.peak_at = 1 + [x for x, _, _ in self._run].index(peak_x)
        self.spike.last_x, self.spike.last = self._run[-1][:2]
        self._recent.clear()
        self._recent.extend(value for _, _, value in self._run)
        self._early = [value for _, _, value in self._run]
        self._run.clear()
        self._calm = 0
        return self.spike

    def _follow(self, spike: Spike, x: int, y: float, value: float) -> Spike | None:
        spike.points += 1
        spike.last_x, spike.last = x, y
        if y > spike.peak:
            spike.peak, spike.peak_x, spike.peak_at = y, x, spike.points
        self._recent.append(value)
        if len(self._early) < RECENT:
            self._early.append(value)
        calm = CALM_Z * self._baseline.spread
        if self._logs:
            calm = max(calm, CALM_RISE)
        self._calm = self._calm + 1 if value - self._baseline.level < calm else 0
        # What lingers is a level, and its end is one too: a few low points of a noisy curve are not it.
        back = spike.state != "lingering" or median(self._recent) - self._baseline.level < calm / 2
        if self._calm >= CALM_RUN and back:
            spike.state = "recovered"
            self.spike = None
            self._ended = self._seen
            for recent in list(self._recent)[-CALM_RUN:]:
                self._push(recent)
            return spike
        if spike.state == "rising" and self._lingers(spike.points, calm):
            spike.state = "lingering"
            return spike
        return None

    def _lingers(self, points: int, calm: float) -> bool:
        """Whether it has been long enough, and is neither back nor coming back."""
        young = max(YOUNG_POINTS, YOUNG_SHARE * self._seen)
        patience = max(min(self._linger, young), LINGER_SHARE * self._seen)
        if points < patience:
            return False
        height = median(self._recent) - self._baseline.level
        # A noisy curve that is half back is not stuck: its median must still be high.
        if height < calm:
            return False
        early = median(self._early) - self._baseline.level
        return height > (1 - COMING_BACK) * early or points >= PATIENCE * patience

    def _go_linear(self, x: int, y: float) -> Spike | None:
        """The first loss at or below zero: from now on differences, with the same points as baseline."""
        ended = self.quiet(0)
        self._logs = False
        self._raw.append((x, y))
        for _, value in self._raw:
            self._push(value)
        return ended
