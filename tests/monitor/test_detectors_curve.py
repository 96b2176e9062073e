"""Detectors over one curve, each against plain numpy or against a curve whose answer is known."""

from __future__ import annotations

import math
from statistics import median

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ntstop.diagnosis.detectors.baseline import REFRESH, SIZE, YOUNG, Baseline
from ntstop.diagnosis.detectors.divergence import Divergence, DivergenceDetector
from ntstop.diagnosis.detectors.levels import MAX_BLOCKS, Levels, pooled
from ntstop.diagnosis.detectors.nonfinite import CALM, NonfiniteDetector, describe
from ntstop.diagnosis.detectors.rate import RateWatch
from ntstop.diagnosis.detectors.regressed import regressed
from ntstop.diagnosis.detectors.schedule import ScheduleWatch
from ntstop.diagnosis.detectors.spike import LINGER, SpikeDetector
from ntstop.diagnosis.detectors.unlearned import unlearned

from .records import descent, wobble

numbers = st.floats(-1e6, 1e6)


@given(st.lists(numbers, min_size=1, max_size=300))
@settings(max_examples=50, deadline=None)
def test_baseline_is_the_median_and_the_neighbour_noise_of_its_last_refresh(values: list[float]) -> None:
    baseline = Baseline()
    for value in values:
        baseline.push(value)
    seen = at = 0
    while (at := at + 1) <= len(values):
        # A quarter of the points that there are, once new.
        if at - seen >= min(SIZE, at) * REFRESH // SIZE:
            seen = at
    window = np.array(values[max(0, seen - SIZE) : seen])
    newest = window if len(window) == SIZE else window[-YOUNG:]
    assert baseline.level == pytest.approx(float(np.median(newest)))
    noise = 1.4826 / math.sqrt(2) * float(np.median(np.abs(np.diff(window)))) if len(window) > 1 else 0.0
    assert baseline.spread == pytest.approx(noise)


def test_baseline_noise_is_one_sigma_and_ignores_a_descent() -> None:
    rng = np.random.default_rng(1)
    spreads = []
    for _ in range(200):
        baseline = Baseline()
        for step in range(SIZE):
            baseline.push(-0.5 * step + float(rng.normal(0.0, 2.0)))
        spreads.append(baseline.spread)
    assert median(spreads) == pytest.approx(2.0, rel=0.15)


@given(st.lists(numbers, min_size=1, max_size=1500))
@settings(max_examples=30, deadline=None)
def test_levels_pool_to_the_mean_and_variance_of_all_complete_blocks(values: list[float]) -> None:
    levels = Levels()
    for x, value in enumerate(values):
        levels.add(x, value)
    assert len(levels.blocks) < MAX_BLOCKS
    assert {block.count for block in levels.blocks} <= {levels.size}
    complete = levels.size * len(levels.blocks)
    assert len(values) - complete < levels.size
    mean, variance, count = pooled(levels.blocks)
    kept = np.array(values[:complete])
    assert count == complete
    assert mean + levels.origin == pytest.approx(float(kept.mean()), rel=1e-9, abs=1e-6)
    assert variance == pytest.approx(float(kept.var()), rel=1e-6, abs=1e-3)


def test_levels_keep_small_noise_on_a_large_level() -> None:
    levels = Levels()
    values = [1e8 + 1e-3 * wobble(step) for step in range(64)]
    for x, value in enumerate(values):
        levels.add(x, value)
    _, variance, _ = pooled(levels.blocks)
    assert math.sqrt(variance) == pytest.approx(float(np.std(values)), rel=1e-3)


@pytest.mark.parametrize(("value", "text"), [(math.nan, "NaN"), (math.inf, "+Inf"), (-math.inf, "-Inf"), (2.0, "2")])
def test_nonfinite_values_are_named(value: float, text: str) -> None:
    assert describe(value) == text


def test_nonfinite_episode_has_its_first_step_its_context_and_its_end() -> None:
    detector = NonfiniteDetector()
    values = [1.0, 2.0, 3.0, 4.0, 5.0, math.inf, math.nan, *[6.0] * CALM]
    episodes = [detector.add(x, value) for x, value in enumerate(values)]
    assert episodes[:5] == [None] * 5
    episode = episodes[-1]
    assert episode is not None and episode.over and detector.episode is None
    assert (episode.first_x, episode.first, episode.last_x, episode.count) == (5, math.inf, 6, 2)
    assert episode.before == [(1, 2.0), (2, 3.0), (3, 4.0), (4, 5.0)]
    assert [x for x, _ in episode.after] == [6, 7, 8, 9]
    assert not any(item is not None and item.over for item in episodes[:0])
    assert detector.add(99, math.nan) is not episode


def test_nonfinite_episode_goes_on_while_the_calm_is_short() -> None:
    detector = NonfiniteDetector()
    for x, value in enumerate([math.nan, *[1.0] * (CALM - 1), math.nan]):
        episode = detector.add(x, value)
    assert episode is not None and episode.count == 2 and not episode.over


def states(values: list[float], detector: SpikeDetector | None = None) -> list[tuple[str, int, int]]:
    """(state, first step, step at which it was told) of every spike event."""
    detector = SpikeDetector() if detector is None else detector
    told = []
    for x, value in enumerate(values):
        spike = detector.add(x, value)
        if spike is not None:
            told.append((spike.state, spike.first_x, x))
    return told


def test_spike_that_comes_back_is_recovered() -> None:
    curve = descent(400)
    curve[200:210] = [6.0] * 10
    assert states(curve) == [("rising", 200, 202), ("recovered", 200, 214)]


def test_spike_that_stays_is_lingering_once() -> None:
    curve = [*descent(400)[:200], *[4.0 + 0.1 * wobble(step) for step in range(200)]]
    assert states(curve) == [("rising", 200, 202), ("lingering", 200, 200 + int(LINGER.value) - 1)]


def test_single_outliers_and_noise_are_no_spikes() -> None:
    curve = descent(2000, noise=0.15)
    for step in range(50, 2000, 50):
        curve[step] *= 5.0
    assert states(curve) == []


def test_spike_needs_five_low_points_in_a_row_to_open() -> None:
    flat = [1.0 + 0.001 * wobble(step) for step in range(100)]
    assert states([*flat, *[1.3] * 4, *flat]) == []
    assert states([*flat, *[1.3] * 5, *flat])[0] == ("rising", 100, 104)


def test_negative_losses_are_judged_by_differences() -> None:
    flat = [-5.0 + 0.1 * wobble(step) for step in range(100)]
    assert states([*flat, *[3.0] * 6, *flat]) == [("rising", 100, 104), ("recovered", 100, 110)]
    assert states(flat * 3) == []


def test_loss_that_turns_negative_goes_on_without_an_alarm() -> None:
    assert states([3.0 - 0.01 * step + 0.02 * wobble(step) for step in range(600)]) == []


def test_quiet_detector_learns_the_new_level() -> None:
    detector = SpikeDetector()
    assert states(descent(200), detector) == []
    detector.quiet()
    assert states([4.0 + 0.1 * wobble(step) for step in range(200)], detector) == []


def diverged(values: list[float]) -> list[tuple[int, Divergence]]:
    detector = DivergenceDetector()
    return [(x, found) for x, value in enumerate(values) if (found := detector.add(x, value)) is not None]


def test_loss_above_its_start_is_a_divergence_until_it_is_back() -> None:
    good = [*descent(200), *[9.0] * 40, *[2.0] * 60]
    (begun, first), (ended, second) = diverged(good)
    assert first is second and first.how == "above-start" and first.first_x == 200 and begun < 210
    assert ended == 240 + 31 and second.over


def test_divergence_in_the_first_steps_is_seen() -> None:
    (_, found), *_ = diverged([0.25, 0.25, *[3.0 + 0.1 * wobble(step) for step in range(40)]])
    assert found.how == "above-start" and found.first_x == 2


def test_a_very_first_step_that_throws_the_loss_off_is_measured_against_the_first_point() -> None:
    (_, found), *_ = diverged([2.7, 28.0, 48.0, 65.0, 56.0, 59.0, 57.0, 36.0, *[20.0 + wobble(x) for x in range(40)]])
    assert (found.how, found.first_x, found.reference) == ("above-start", 1, 2.7)


def test_a_first_batch_that_was_easy_by_luck_is_no_start_to_be_above_of() -> None:
    rng = np.random.default_rng(4)
    for _ in range(200):
        told = diverged([0.4, 1.5, 2.5, *(2.0 * np.exp(rng.normal(0.0, 0.8, 13)))])
        assert all(found.reference > 0.4 for _, found in told)


def test_explosion_is_told_at_its_second_point() -> None:
    curve = [*descent(60, start=0.7, end=0.14), 2.0, 300.0, 1e9]
    ((told, found),) = diverged(curve)
    assert found.how == "explosion" and (found.first_x, told) == (60, 61)


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.3])
def test_healthy_descent_never_diverges(noise: float) -> None:
    assert diverged(descent(3000, noise=noise)) == []


def fill(values: list[float]) -> Levels:
    levels = Levels()
    for x, value in enumerate(values):
        levels.add(x, value)
    return levels


def test_fallen_back_and_stuck_is_regressed_with_the_step_of_the_jump() -> None:
    curve = [*descent(300), *[2.0 + 0.05 * wobble(step) for step in range(300)]]
    found = regressed(fill(curve), curve[0])
    assert found is not None and found.how == "regressed"
    assert abs(found.first_x - 300) <= 8 and found.level == pytest.approx(2.0, rel=0.01)


def test_descent_and_a_flat_noisy_end_are_not_regressed() -> None:
    assert regressed(fill(descent(600)), 4.6) is None
    rng = np.random.default_rng(2)
    for _ in range(50):
        assert regressed(fill([0.27 + 0.05 * float(rng.normal()) for _ in range(400)]), 0.9) is None


def test_short_bump_in_a_long_run_is_not_regressed() -> None:
    curve = descent(1000)
    curve[700:730] = [value * 1.8 for value in curve[700:730]]
    assert all(regressed(fill(curve[:end]), curve[0]) is None for end in range(720, 1000, 5))


def test_flat_at_the_start_is_unlearned_only_after_patience() -> None:
    flat = [4.6 + 0.05 * wobble(step) for step in range(600)]
    assert unlearned(fill(flat[:400]), 4.6) is None
    assert unlearned(fill(flat), 4.6) is not None
    assert unlearned(fill(flat), 4.6, total_steps=100_000) is None


def test_loss_above_its_start_is_unlearned_soon() -> None:
    assert unlearned(fill([6.91, *[7.05 + 0.03 * wobble(step) for step in range(80)]]), 6.91) is not None


def test_a_guess_among_the_classes_is_unlearned_though_the_first_batch_lay_higher() -> None:
    flat = [2.335, *[2.3026 + 0.01 * wobble(step) for step in range(700)]]
    assert unlearned(fill(flat), 2.335) is not None
    assert unlearned(fill([value - 0.05 for value in flat]), 2.335) is None


def test_slow_warm_up_is_not_unlearned() -> None:
    slow = [6.91 - 0.0004 * step + 0.005 * wobble(step) for step in range(600)]
    assert all(unlearned(fill(slow[:end]), 6.91) is None for end in range(64, 600, 7))


def test_constant_metric_at_zero_is_not_unlearned() -> None:
    assert unlearned(fill([0.0] * 700), 0.0) is None


def test_rate_restart_is_told_once_and_warm_up_never() -> None:
    watch = RateWatch()
    warm_up = [step / 100 for step in range(101)]
    decay = [0.5 * (1 + math.cos(math.pi * step / 300)) for step in range(301)]
    told = [x for x, rate in enumerate([*warm_up, *decay, *warm_up, *decay]) if watch.add(x, rate)]
    assert len(told) == 1 and 402 <= told[0] < 402 + 16
    assert watch.jump is None and watch.near_zero


def test_rate_jump_above_its_peak_is_a_jump_and_no_restart() -> None:
    watch = RateWatch()
    assert not any(watch.add(x, 0.01 if x < 100 else 1.0) for x in range(200))
    assert watch.jump is not None and (watch.jump.x, watch.jump.before, watch.jump.after) == (100, 0.01, 1.0)


def test_warm_up_that_a_log_skips_is_no_leap_of_the_rate() -> None:
    """The AlgoPerf logs hold each of the first 100 steps, then every hundredth: the rate has risen in between."""
    watch = ScheduleWatch(3.0)
    x = [*range(100), *range(500, 2000, 100)]
    rates = np.array([min(1.0, (step + 1) / 1000) for step in x])
    assert [leap for at, rate in zip(x, rates, strict=True) for leap in watch.add([at], np.array([rate]))] == []
    (leap,) = watch.add([2000], np.array([3.5]))
    assert (leap.x, leap.before, leap.after) == (2000, 1.0, 3.5)


def test_a_step_skipped_in_the_log_is_not_a_flat_start() -> None:
    levels = Levels()
    for step in [*range(100), *range(500, 900, 100)]:
        levels.add(step, 1.0)
    assert unlearned(levels, 1.0) is None
