"""Made-up curves of many shapes, healthy and bad, with a fixed seed: what the real curves at hand do not show.

    python -m tests.bench.shapes [--seeds N] [--misses]

The shapes are those that people know from their own runs: heavy tails, tasks in turn, restarts, epochs, running means,
curricula, late drops; and slow, late and growing ways to go wrong. They show where a rule is fragile; thresholds are
measured on real curves. A bad curve counts as caught when a warning or worse stands at any moment, in time when that is
at most 5 % of the run after its mean has risen over its best, for good, by the noise of a point and by 5 %.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tests.bench.figures import in_rows

from .curves import Run, judge, share

Array = NDArray[np.float64]
LENGTHS = ((120, 100), (400, 50), (1500, 1))
"""Points, and steps from one to the next."""
IN_TIME = 0.05
SEEN = 0.05
"""Relative rise of the mean that a person sees, where the noise of a point is not larger."""


@dataclass(frozen=True, slots=True)
class Curve:
    """`loss` as it is logged, `lr` or None where it is not, `onset` the point from which a person sees a bad one."""

    loss: Array
    lr: Array | None = None
    onset: int | None = None


Shape = Callable[[np.random.Generator, int], Curve]


def descent(n: int, high: float = 6.0, low: float = 2.0, power: float = 0.6, scale: float = 0.02) -> Array:
    """A power law from `high` down towards `low` over `n` points; half of it within `scale` of them."""
    t = np.arange(n) / n
    return low + (high - low) * (1 + t / scale) ** -power


def white(rng: np.random.Generator, n: int, sigma: float) -> Array:
    """Factors around 1 of independent noise."""
    return np.exp(rng.normal(0.0, sigma, n))


def wandering(rng: np.random.Generator, n: int, sigma: float, length: float) -> Array:
    """Factors around 1 of noise that remembers itself for `length` points."""
    keep = math.exp(-1.0 / length)
    steps = rng.normal(0.0, sigma * math.sqrt(1 - keep * keep), n)
    level, out = rng.normal(0.0, sigma), np.empty(n)
    for at in range(n):
        level = keep * level + steps[at]
        out[at] = level
    return np.exp(out)


def warm_cosine(n: int, peak: float = 1e-3, warm: float = 0.05) -> Array:
    """A learning rate with a warm-up and a cosine."""
    t = np.arange(n) / n
    return peak * np.minimum(1.0, (t + 1 / n) / warm) * (0.5 + 0.5 * np.cos(math.pi * t))


# Healthy


def heavy_tails(rng: np.random.Generator, n: int) -> Curve:
    return Curve(descent(n) * np.exp(0.05 * rng.standard_t(2.5, n)), warm_cosine(n))


def solved(rng: np.random.Generator, n: int) -> Curve:
    """A task that is solved: a loss near 0 with batches of ten times its usual value."""
    return Curve(descent(n, 2.3, 1e-3, 2.0, 0.05) * white(rng, n, 1.0), warm_cosine(n))


def tasks_in_turn(rng: np.random.Generator, n: int) -> Curve:
    """Batches of four tasks, each with a level of its own."""
    return Curve(descent(n) * rng.choice([0.6, 1.0, 1.3, 2.0], n) * white(rng, n, 0.03), warm_cosine(n))


def restarts_with_rate(rng: np.random.Generator, n: int) -> Curve:
    """Cosine restarts whose rate is logged: the loss rises with each by a fifth to a half."""
    return _restarts(rng, n, known=True)


def restarts_without_rate(rng: np.random.Generator, n: int) -> Curve:
    """The same, in a log without the rate."""
    return _restarts(rng, n, known=False)


def cycles(rng: np.random.Generator, n: int) -> Curve:
    """A rate that goes up and down in five triangles, and the loss with it, by a fifth to a half."""
    t = np.arange(n) / n * 5
    rate = np.abs(t - np.floor(t + 0.5)) * 2
    return Curve(descent(n) * (1 + rng.uniform(0.2, 0.5) * rate) * white(rng, n, 0.03), 1e-4 + 1e-3 * rate)


def _restarts(rng: np.random.Generator, n: int, *, known: bool) -> Curve:
    rate = 0.5 + 0.5 * np.cos(math.pi * ((np.arange(n) / n * 4) % 1.0))
    high = rng.uniform(0.2, 0.5)
    warm = np.minimum(1.0, np.arange(n) / (0.25 * n))
    return Curve(descent(n) * (1 + high * warm * rate) * white(rng, n, 0.03), 1e-3 * rate + 1e-6 if known else None)


def epochs(rng: np.random.Generator, n: int) -> Curve:
    """Samples in one order: the same hills in each of 8 epochs, and a fall at the beginning of each."""
    t = (np.arange(n) / n * 8) % 1.0
    hill = 1 + rng.uniform(0.02, 0.08) * np.sin(2 * math.pi * t) + 0.02 * t
    return Curve(descent(n) * hill * white(rng, n, 0.03))


def running_mean(rng: np.random.Generator, n: int) -> Curve:
    """A log of a moving average, whose noise remembers itself for 20 points."""
    return Curve(descent(n) * wandering(rng, n, 0.02, 20.0), warm_cosine(n))


def shifting_data(rng: np.random.Generator, n: int) -> Curve:
    """A stream whose difficulty wanders by 3 % over a twentieth of the run."""
    return Curve(descent(n) * wandering(rng, n, 0.03, n / 20) * white(rng, n, 0.03), warm_cosine(n))


def noise_floor(rng: np.random.Generator, n: int) -> Curve:
    """Down within a few points, then noise of a fifth for the rest (image reconstruction)."""
    return Curve(descent(n, 1.0, 0.28, 2.0, 0.003) * white(rng, n, 0.2))


def warm_up_hill(rng: np.random.Generator, n: int) -> Curve:
    """The loss rises by a tenth while the rate nears its peak, and comes down again."""
    t = np.arange(n) / n
    hill = 1 + rng.uniform(0.05, 0.12) * np.exp(-(((t - 0.06) / 0.015) ** 2))
    return Curve(descent(n) * hill * white(rng, n, 0.03), warm_cosine(n))


def curriculum(rng: np.random.Generator, n: int) -> Curve:
    """Longer sequences from a third of the run on: 4 % more loss, and on it goes."""
    longer = 1 + 0.04 * (np.arange(n) > n / 3)
    return Curve(descent(n, scale=0.1) * longer * white(rng, n, 0.03), warm_cosine(n))


def late_drop(rng: np.random.Generator, n: int) -> Curve:
    """Half of the descent at once, the other half after 60 % of the run."""
    t = np.arange(n) / n
    return Curve((descent(n, 4.0, 2.0, 2.0, 0.01) - 1.2 / (1 + np.exp(-(t - 0.6) / 0.01))) * white(rng, n, 0.03))


def around_zero(rng: np.random.Generator, n: int) -> Curve:
    """A policy gradient with a baseline."""
    return Curve(rng.normal(0.0, 0.05, n) + 0.02 * np.exp(-np.arange(n) / n * 10))


def below_zero(rng: np.random.Generator, n: int) -> Curve:
    """A negative log likelihood of densities."""
    return Curve(descent(n, 3.0, -4.0) + rng.normal(0.0, 0.15, n), warm_cosine(n))


def spikes_that_heal(rng: np.random.Generator, n: int) -> Curve:
    """Three spikes that decay over a hundredth of the run."""
    loss = descent(n) * white(rng, n, 0.02)
    for at in rng.integers(n // 10, n - n // 10, 3).tolist():
        loss[at:] *= 1 + rng.uniform(0.3, 1.0) * np.exp(-np.arange(n - at) / max(1.0, n / 100))
    return Curve(loss, warm_cosine(n))


def quick_overshoot(rng: np.random.Generator, n: int) -> Curve:
    """The first step overshoots to four times the start, and is back within a few points."""
    loss = descent(n) * white(rng, n, 0.02)
    loss[1:] *= 1 + 3.0 * np.exp(-np.arange(n - 1) / 2.0)
    return Curve(loss)


HEALTHY: tuple[Shape, ...] = (
    heavy_tails,
    solved,
    tasks_in_turn,
    restarts_with_rate,
    restarts_without_rate,
    cycles,
    epochs,
    running_mean,
    shifting_data,
    noise_floor,
    warm_up_hill,
    curriculum,
    late_drop,
    around_zero,
    below_zero,
    spikes_that_heal,
    quick_overshoot,
)


# Bad


def _bad(mean: Array, noise: Array, sigma: float, lr: Array | None = None) -> Curve:
    """The onset is where the mean lies over its own best for good."""
    best = np.minimum.accumulate(mean)
    over = mean > best * (1 + max(SEEN, sigma))
    since = len(mean) - int(np.argmin(over[::-1])) if not over.all() else 0
    return Curve(mean * noise, lr, onset=min(since, len(mean) - 1))


def slow_divergence(rng: np.random.Generator, n: int) -> Curve:
    """From 40 % of the run on it rises steadily, to half as much again or to three times."""
    t = np.arange(n) / n
    good = descent(n)
    mean = good * (1 + rng.uniform(0.5, 2.0) * np.maximum(0.0, (t - 0.4) / 0.6))
    return _bad(mean, white(rng, n, 0.03), 0.03, warm_cosine(n))


def late_blow_up(rng: np.random.Generator, n: int) -> Curve:
    """Between 60 and 85 % of the run it jumps by half or to three times, and stays."""
    at = int(rng.uniform(0.6, 0.85) * n)
    good = descent(n)
    mean = good * np.where(np.arange(n) < at, 1.0, rng.uniform(1.5, 3.0))
    return _bad(mean, white(rng, n, 0.05), 0.05, warm_cosine(n))


def collapse(rng: np.random.Generator, n: int) -> Curve:
    """Between 10 and 50 % of the run it jumps by 12 to 30 % and stays there, flat: a constant prediction."""
    at = int(rng.uniform(0.1, 0.5) * n)
    good = descent(n, 0.7, 0.12, 2.0, 0.005)
    mean = np.where(np.arange(n) < at, good, good[at] * rng.uniform(1.12, 1.3))
    return _bad(mean, white(rng, n, 0.04), 0.04)


def half_healed(rng: np.random.Generator, n: int) -> Curve:
    """A spike to three times comes back to a level a quarter over the one before, and stays."""
    at = int(rng.uniform(0.3, 0.7) * n)
    good = descent(n)
    tail = 0.25 + 1.75 * np.exp(-np.arange(n - at) / max(1.0, n / 100))
    mean = good.copy()
    mean[at:] *= 1 + tail
    return _bad(mean, white(rng, n, 0.04), 0.04, warm_cosine(n))


def growing_swings(rng: np.random.Generator, n: int) -> Curve:
    """It swings about its level over 2 % of the run, more and more, up to three times and down to a third."""
    t = np.arange(n) / n
    good = descent(n)
    depth = 1.1 * np.clip((t - 0.3) / 0.5, 0.0, 1.0) ** 2
    mean = good * np.exp(depth * np.sin(2 * math.pi * t / 0.02))
    onset = int((0.3 + 0.5 * math.sqrt(0.3 / 1.1)) * n)
    return Curve(mean * white(rng, n, 0.03), warm_cosine(n), onset)


def swings_in_warm_up(rng: np.random.Generator, n: int) -> Curve:
    """The first 100 steps of a run whose rate rises too far: swings of 8 steps, each higher than the one before."""
    n = 100
    t = np.arange(n)
    depth = np.clip((t - rng.integers(20, 50)) / 40, 0.0, None)
    mean = descent(n, 0.5, 0.13, 2.0, 0.1) * np.exp(depth * (1 + np.sin(2 * math.pi * t / 8)))
    onset = int(np.argmax(mean > 1.3 * np.minimum.accumulate(mean)))
    return Curve(mean * white(rng, n, 0.05), warm_cosine(20 * n)[:n], onset)


def never_learned(rng: np.random.Generator, n: int) -> Curve:
    """It stays at ln 100, or goes up by a few percent."""
    t = np.arange(n) / n
    mean = math.log(100) * (1 + rng.choice([0.0, 0.03]) * np.minimum(1.0, t / 0.05))
    return Curve(mean * white(rng, n, 0.01), onset=max(8, n // 20))


def explosion(rng: np.random.Generator, n: int) -> Curve:
    """Near the end of a descent it doubles with every point."""
    at = int(rng.uniform(0.3, 0.9) * n)
    loss = descent(n) * white(rng, n, 0.03)
    loss[at:] *= np.exp2(np.minimum(np.arange(n - at), 40))
    return Curve(loss, warm_cosine(n), at + 1)


BAD: tuple[Shape, ...] = (
    slow_divergence,
    late_blow_up,
    collapse,
    half_healed,
    growing_swings,
    swings_in_warm_up,
    never_learned,
    explosion,
)


def run_of(shape: Shape, seed: int, length: int, stride: int) -> Run:
    """The curve as one of the development set."""
    curve = shape(np.random.default_rng([seed, length]), length)
    n = len(curve.loss)
    step = [at * stride for at in range(n)]
    none: list[float | None] = [None] * n
    return Run(
        id=f"{shape.__name__}/{seed}/{n}",
        workload=shape.__name__,
        submission="made up",
        label="healthy" if shape in HEALTHY else "bad",
        onset=None if curve.onset is None else step[curve.onset],
        step=step,
        loss=list(curve.loss.tolist()),
        grad_norm=none,
        lr=none if curve.lr is None else list(curve.lr.tolist()),
        eval_step=[],
        eval_train=[],
        eval_val=[],
    )


@dataclass(frozen=True, slots=True)
class Told:
    """What was said of one made-up curve."""

    run: Run
    alarm: int | None
    said: dict[str, str]

    @property
    def in_time(self) -> bool:
        """Told at most `IN_TIME` of the run after its onset."""
        return (
            self.alarm is not None
            and self.run.onset is not None
            and self.alarm - self.run.onset <= IN_TIME * self.run.span
        )


def tell(job: tuple[str, int, int, int]) -> Told:
    """Judge the shape of that name, with seed, length and stride."""
    name, *rest = job
    run = run_of(next(shape for shape in (*HEALTHY, *BAD) if shape.__name__ == name), *rest)
    outcome = judge(run)
    return Told(run, outcome.alarm, {kind: told for kind, told in outcome.said.items() if told != "info"})


def table(told: Sequence[Told]) -> str:
    """One line a shape, then all healthy and all bad ones."""
    rows: list[tuple[str, ...]] = [("", "curves", "alarmed", "in time", "what was said")]
    for name in dict.fromkeys(item.run.workload for item in told):
        group = [item for item in told if item.run.workload == name]
        kinds = sorted({kind for item in group for kind in item.said})
        alarmed = sum(item.alarm is not None for item in group)
        in_time = "" if group[0].run.healthy else f"{sum(item.in_time for item in group)}"
        rows.append((name.replace("_", " "), f"{len(group)}", f"{alarmed}", in_time, ", ".join(kinds)))
    for healthy in (True, False):
        group = [item for item in told if item.run.healthy == healthy]
        alarmed = sum(item.alarm is not None for item in group)
        in_time = "" if healthy else share(sum(item.in_time for item in group), len(group))
        rows.append(("healthy" if healthy else "bad", f"{len(group)}", share(alarmed, len(group)), in_time, ""))
    return in_rows(rows, markdown=False)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--misses", action="store_true", help="name the false alarms, the misses and the late ones")
    arguments = parser.parse_args()
    jobs = [
        (shape.__name__, seed, *length)
        for shape in (*HEALTHY, *BAD)
        for length in LENGTHS
        for seed in range(arguments.seeds)
    ]
    with ProcessPoolExecutor() as pool:
        told = list(pool.map(tell, jobs, chunksize=4))
    print(table(told))
    if arguments.misses:
        for item in told:
            if (item.alarm is not None) == item.run.healthy or not (item.run.healthy or item.in_time):
                print(item.run.id, "of", item.run.span, "onset", item.run.onset, "alarm", item.alarm, item.said)


if __name__ == "__main__":
    main()
