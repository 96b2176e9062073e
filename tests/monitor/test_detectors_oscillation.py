"""Swings that grow: the wave against a plain least-squares fit, what is none, and what holds for every curve."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ntstop.diagnosis.detectors.oscillation import Array, Swing, SwingDetector
from ntstop.diagnosis.detectors.waves import WINDOW, fitted

from .test_detectors_oracles import size

POINTS = 1200


def noise(sigma: float, seed: int = 0, count: int = POINTS) -> Array:
    return np.random.default_rng(seed).normal(0.0, sigma, count)


def growth(period: float, count: int = POINTS, most: float = 1.0) -> Array:
    """An amplitude of 2 % that grows by 15 % a period from the middle on, up to `most`."""
    return np.minimum(most, 0.02 * 1.15 ** (np.maximum(0.0, np.arange(count) - count / 2) / period))


def wave(period: float, count: int = POINTS) -> Array:
    return np.sin(2 * math.pi * np.arange(count) / period)


def told(
    loss: Array, *, rate: Array | None = None, epoch: Array | None = None, cuts: list[int] | None = None
) -> list[str]:
    """What a detector says of a curve that comes in stretches."""
    unknown = np.full(len(loss), math.nan)
    rows = np.array([
        np.arange(len(loss)), loss, unknown if rate is None else rate, unknown if epoch is None else epoch
    ])  # fmt: skip
    detector, said = SwingDetector(), list[str]()
    for part in np.split(rows, sorted(cuts or []), axis=1):
        if part.shape[1]:
            said += [repr(swing) for swing in detector.extend(*part)]
    return said


def first(loss: Array) -> Swing:
    unknown = np.full(len(loss), math.nan)
    return SwingDetector().extend(np.arange(len(loss), dtype=float), loss, unknown, unknown)[0]


@given(st.integers(0, 10_000), st.sampled_from([4.0, 5.5, 8.0, 11.0, 15.0]), st.floats(0.0, 0.5))
@settings(max_examples=60, deadline=None)
def test_wave_is_the_best_of_plain_least_squares_fits(seed: int, periods: float, sigma: float) -> None:
    rng, at = np.random.default_rng(seed), np.linspace(-1.0, 1.0, WINDOW)
    turn = 2 * math.pi * periods * np.arange(WINDOW) / WINDOW
    values = (1 + 0.8 * at) * np.cos(turn + rng.uniform(0, 6)) + rng.normal(0, sigma, WINDOW) + 3 - 2 * at + at * at
    parabola = np.vander(at, 3)
    left = float(np.linalg.lstsq(parabola, values)[1][0])
    shares = {}
    for number in np.arange(4.0, 15.25, 0.5):
        angle = 2 * math.pi * number * np.arange(WINDOW) / WINDOW
        waves = np.stack([np.cos(angle), np.sin(angle), at * np.cos(angle), at * np.sin(angle)], axis=1)
        shares[number] = 1 - float(np.linalg.lstsq(np.hstack([parabola, waves]), values)[1][0]) / left
    found = fitted(values, coarse=False)
    assert found.share == pytest.approx(max(shares.values()), abs=1e-9)
    assert found.noise == pytest.approx(math.sqrt(max(0.0, left * (1 - max(shares.values()))) / 25), abs=1e-6)
    if sigma < 1e-3:
        assert (found.periods, found.before, found.now) == pytest.approx((periods, 0.2, 1.8), abs=0.02)


@pytest.mark.parametrize("period", [2.4, 5.0, 8.0, 19.0, 30.0])
def test_a_wave_of_any_length_that_grows_is_told_before_it_is_three_times_its_level(period: float) -> None:
    loss = 2.0 * np.exp(growth(period) * wave(period) + noise(0.02))
    swing = first(loss)
    assert swing.now == pytest.approx(growth(period)[swing.last_x], rel=0.35) and swing.now < math.log(3)
    assert swing.period == pytest.approx(period, rel=0.15, abs=0.5) and swing.before < swing.now / 1.5
    assert swing.low[1] < 2.0 < swing.high[1] and swing.level == pytest.approx(2.0, rel=0.1)


@pytest.mark.parametrize("level", [-4.0, 0.0])
def test_losses_below_zero_and_around_it_swing_as_well(level: float) -> None:
    assert told(level + 6 * growth(9.0) * wave(9.0) + noise(0.02))
    assert not told(level + 3.0 * np.exp(-np.arange(POINTS) / 50) + noise(0.1))


QUIET: dict[str, Callable[[], Array]] = {
    "steady swings": lambda: 2.0 * np.exp(0.4 * wave(9.0) + noise(0.02)),
    "swings that set in at once": lambda: 2.0 * np.exp(np.where(np.arange(POINTS) < 600, 0, 0.4) * wave(9.0)),
    "swings that fade": lambda: 2.0 * np.exp(growth(9.0)[::-1] * wave(9.0) + noise(0.02)),
    "noise that grows": lambda: 2.0 * np.exp((0.02 + growth(9.0)) * noise(1.0)),
    "heavy tails that grow": lambda: np.exp((0.02 + growth(9.0)) * np.random.default_rng(1).standard_t(2.5, POINTS)),
    "small swings": lambda: 2.0 * np.exp(growth(9.0, most=0.15) * wave(9.0)),
    "stairs of epochs": lambda: 3.0 * 0.7 ** (np.arange(POINTS) // 40) * np.exp(noise(0.02)),
    "spikes": lambda: np.exp(noise(0.02) + np.where(np.arange(POINTS) % 97 == 60, np.arange(POINTS) / 600, 0)),
    "equal points": lambda: np.full(POINTS, 2.0),
    "zeros": lambda: np.zeros(POINTS),
}


@pytest.mark.parametrize("name", QUIET)
def test_what_has_no_period_or_does_not_grow_is_no_swing(name: str) -> None:
    assert told(QUIET[name]()) == []


def test_a_swing_of_the_rate_and_one_of_each_epoch_are_planned() -> None:
    loss = 2.0 * np.exp(growth(30.0) * wave(30.0) + noise(0.02))
    assert told(loss)
    assert not told(loss, rate=1e-3 * (1.2 + wave(30.0)))
    assert not told(loss, epoch=np.arange(POINTS) // 30.0)
    assert told(loss, rate=np.full(POINTS, 1e-3), epoch=np.arange(POINTS) // 170.0)


@given(st.integers(0, 10_000), st.lists(st.integers(0, POINTS), max_size=30), st.sampled_from([2.0, -1.0]))
@settings(max_examples=15, deadline=None)
def test_stretches_of_any_length_tell_the_same(seed: int, cuts: list[int], level: float) -> None:
    rng = np.random.default_rng(seed)
    period = float(rng.uniform(2.2, 30.0))
    swings = growth(period) * wave(period) * (np.arange(POINTS) < rng.integers(600, 1400)) + noise(0.02, seed)
    loss = level * np.exp(swings) if level > 0 else level + swings
    if level > 0 and seed % 3 == 0:
        loss[900:] -= 1.5
    whole = told(loss)
    assert told(loss, cuts=cuts) == whole == told(loss, cuts=list(range(POINTS)))


@pytest.mark.parametrize("factor", [1e-6, 1e4])
def test_the_unit_of_the_loss_does_not_matter(factor: float) -> None:
    for sign in (1.0, -1.0):
        loss = sign * 2.0 * np.exp(growth(9.0) * wave(9.0) + noise(0.01))
        one, other = first(loss), first(factor * loss)
        assert (one.first_x, one.last_x, one.period) == (other.first_x, other.last_x, other.period)


def test_over_when_it_has_calmed_and_told_again_when_it_comes_back() -> None:
    rise, rest = 2.0 * np.exp(growth(9.0) * wave(9.0) + noise(0.02)), 2.0 * np.exp(noise(0.02, 1))
    ends = ["over=True" in swing for swing in told(np.concatenate([rise, rest, rise, rest]))]
    assert ends.count(True) == 2 and ends[0] is False and ends[-1] is True


@pytest.mark.parametrize("period", [3.3, 7.0, 23.0])
def test_a_steady_wave_in_noise_does_not_grow_by_chance(period: float) -> None:
    for seed in range(5):
        assert told(2.0 * np.exp(0.4 * wave(period, 2_000) + noise(0.14, seed, 2_000))) == []


def test_noise_as_wide_as_a_swing_is_never_one() -> None:
    assert told(np.exp(noise(0.3, 7, 200_000)), cuts=list(range(0, 200_000, 4096))) == []


def test_what_is_kept_does_not_grow_with_the_run() -> None:
    kept = []
    for count in (4_096, 131_072):
        detector, unknown = SwingDetector(), np.full(count, math.nan)
        detector.extend(np.arange(count, dtype=float), np.exp(noise(0.1, 0, count)), unknown, unknown)
        kept.append(sum(part.size for scale in detector._scales for part in scale._held) + size(detector._scales))
    # One more scale each time the run has doubled: 13 to 18 of them.
    assert kept[1] < kept[0] * 1.6 < 4_000
