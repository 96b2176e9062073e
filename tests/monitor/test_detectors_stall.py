"""How long is too long: the limits of a step, and parameters that stand still."""

from __future__ import annotations

import numpy as np
import pytest

from ntstop.diagnosis.detectors.frozen import FrozenDetector
from ntstop.diagnosis.detectors.stall import StepTimes


def test_limit_is_twenty_seconds_for_fast_steps_and_twenty_p99_for_slow_ones() -> None:
    fast, slow = StepTimes(), StepTimes()
    rng = np.random.default_rng(4)
    durations = rng.gamma(20.0, 0.1, 500)
    for ordinal, seconds in enumerate(durations):
        fast.add(ordinal, float(seconds) / 1000)
        slow.add(ordinal, float(seconds))
    assert fast.threshold("forward", 500) == 20.0
    assert slow.p99 == pytest.approx(float(np.quantile(durations[3:], 0.99)), rel=0.05)
    assert slow.threshold("data", 500) == pytest.approx(20.0 * slow.p99)


def test_first_steps_evaluation_and_checkpoints_may_take_longer() -> None:
    times = StepTimes()
    for ordinal in range(100):
        times.add(ordinal, 300.0 if ordinal == 0 else 0.1)
    assert times.threshold("forward", 0) >= 600.0
    assert times.threshold("eval", 100) >= 900.0
    assert times.threshold("checkpoint", 100) >= 900.0
    assert times.threshold("forward", 100) == 20.0


def test_pause_that_was_survived_before_is_no_stall() -> None:
    times = StepTimes()
    for ordinal in range(1000):
        times.add(ordinal, 100.0 if ordinal == 400 else 0.1)
    assert times.threshold("other", 1000) == pytest.approx(150.0)
    times.slow_phase("eval", 1200.0)
    assert times.threshold("eval", 1000) == pytest.approx(6000.0)


def test_parameters_stand_still_after_five_equal_samples() -> None:
    detector = FrozenDetector()
    told = [detector.add(step, [1.0, 2.0, None], None) for step in range(0, 100, 10)]
    assert [item is not None for item in told] == [False] * 4 + [True] * 6
    assert told[4] is not None and (told[4].how, told[4].first_x, told[4].last_x) == ("param_norm", 0, 40)


def test_one_bit_of_one_norm_is_motion() -> None:
    detector = FrozenDetector()
    for step in range(0, 100, 10):
        moving = 1.0 if step < 30 else float(np.nextafter(np.float32(1.0), np.float32(2.0))) + step
        assert detector.add(step, [moving, 2.0], None) is None


def test_update_ratio_of_zero_counts_and_any_other_is_motion() -> None:
    detector = FrozenDetector()
    told = [detector.add(step, None, [0.0, 0.0]) for step in range(0, 60, 10)]
    assert told[-1] is not None and told[-1].how == "update_ratio"
    assert detector.add(60, [1.0, 1.0], [0.0, 1e-9]) is None
    assert detector.add(70, None, [0.0, 0.0]) is None


def test_nothing_measured_proves_nothing() -> None:
    detector = FrozenDetector()
    assert all(detector.add(step, None, None) is None for step in range(0, 200, 10))
    assert all(detector.add(step, [None, None], [None, None]) is None for step in range(200, 400, 10))
