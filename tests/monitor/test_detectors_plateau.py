"""The plateau: its slope against scipy, its verdict against curves whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import theilslopes

from ntstop.diagnosis.detectors.levels import Levels
from ntstop.diagnosis.detectors.plateau import Plateau, plateau, theil_sen

from .records import descent, wobble


@pytest.mark.parametrize("seed", range(10))
def test_slope_and_interval_are_those_of_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 1000, 40))
    y = 0.01 * x + rng.standard_t(2, 40)
    slope, low, high = theil_sen(x, y)
    expected = theilslopes(y, x, 0.95)
    assert slope == pytest.approx(expected.slope)
    assert (low, high) == pytest.approx((expected.low_slope, expected.high_slope))


def judge(values: list[float]) -> Plateau | None:
    levels = Levels()
    for x, value in enumerate(values):
        levels.add(x, value)
    return plateau(levels, values[0])


def test_descent_that_stops_is_a_plateau_since_it_stopped() -> None:
    curve = [*descent(400)[:300], *[1.6 + 0.03 * wobble(step) for step in range(2000)]]
    found = judge(curve)
    assert found is not None
    assert abs(found.first_x - 300) < 100 and found.level == pytest.approx(1.6, rel=0.01)
    assert found.low <= 0.0 <= found.high


@pytest.mark.parametrize(("floor", "told"), [(1.46115, True), (1.40, False)])
def test_a_creep_without_noise_is_a_plateau_only_at_the_floor_of_two_softmaxes(floor: float, told: bool) -> None:
    curve = [2.3026, *[floor + 0.84 * 0.97**step + 1e-4 * 0.999**step for step in range(2000)]]
    assert (judge(curve) is not None) == told


def test_slow_descent_is_no_plateau() -> None:
    curve = [*descent(400)[:300], *[1.6 - 0.0001 * step + 0.03 * wobble(step) for step in range(2000)]]
    assert judge(curve) is None


def test_noise_that_hides_a_slope_is_no_proof_of_a_plateau() -> None:
    rng = np.random.default_rng(3)
    curve = [*descent(100)[:60], *[float(1.6 + 0.3 * rng.normal()) for _ in range(300)]]
    assert judge(curve) is None


@pytest.mark.parametrize(
    "curve",
    [
        [2.5] * 2000,
        [4.6 + 0.02 * wobble(step) for step in range(2000)],
        [*descent(300, end=0.01), *[0.01 + 0.0001 * wobble(step) for step in range(2000)]],
        [*descent(100), *[1.5 + 0.001 * wobble(step) for step in range(100)]],
    ],
    ids=["constant metric", "never learned", "flat near zero", "too short"],
)
def test_what_is_flat_for_another_reason_is_no_plateau(curve: list[float]) -> None:
    assert judge(curve) is None
