"""Curves: exact at the resolution of their buckets, bounded in memory, not to be poisoned."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ntstop.curves.buckets import Buckets
from ntstop.curves.pyramid import CAPACITY
from ntstop.curves.series import RAW_POINTS, Series
from ntstop.curves.smooth import ema

Floats = NDArray[np.float64]


def fill(x: Floats, y: Floats, chunk: int | None = None) -> Series:
    series = Series("loss")
    for start in range(0, len(x), chunk or max(1, len(x))):
        part = slice(start, start + (chunk or len(x)))
        series.extend(x[part], y[part], x[part] * 0.1)
    return series


def curve(count: int, seed: int, nonfinite: float = 0.0) -> Floats:
    random = np.random.default_rng(seed)
    y = random.normal(size=count)
    y[random.random(count) < nonfinite] = np.nan
    y[random.random(count) < nonfinite / 2] = -np.inf
    return y


def assert_exact(found: Buckets, x: Floats, y: Floats) -> None:
    """Every bucket says the truth about the points it stands for, and together they stand for all."""
    ends = np.cumsum(found.count)
    assert ends[-1] == len(x)
    for index, (start, end) in enumerate(zip(ends - found.count, ends, strict=True)):
        part, finite = y[start:end], y[start:end][np.isfinite(y[start:end])]
        assert (found.x_first[index], found.x_last[index]) == (x[start:end].min(), x[start:end].max())
        assert found.nonfinite[index] == len(part) - len(finite)
        np.testing.assert_equal(found.last[index], part[-1])
        np.testing.assert_equal(found.t[index], x[end - 1] * 0.1)
        if len(finite):
            assert (found.lo[index], found.hi[index]) == (finite.min(), finite.max())
            assert found.mean[index] == pytest.approx(finite.mean(), abs=1e-9)
        else:
            assert np.isnan([found.lo[index], found.hi[index], found.mean[index]]).all()


@given(
    count=st.integers(1, 30_000),
    chunk=st.integers(1, 3_000),
    width=st.integers(1, 300),
    nonfinite=st.sampled_from([0.0, 0.1, 0.95]),
    seed=st.integers(0, 9),
)
@settings(max_examples=60, deadline=None)
def test_every_bucket_of_the_whole_run_is_exact_and_no_point_is_lost(
    count: int, chunk: int, width: int, nonfinite: float, seed: int
) -> None:
    x, y = np.arange(count, dtype=float), curve(count, seed, nonfinite)
    series = fill(x, y, max(chunk, count // 200))
    found = series.window(0, count, width)
    assert_exact(found, x, y)
    assert len(found) <= 2 * max(1, width) + 1
    assert (series.count, series.nonfinite) == (count, np.count_nonzero(~np.isfinite(y)))


@given(
    lengths=st.lists(st.integers(1, 4_000), min_size=1, max_size=6),
    back=st.integers(1, 5_000),
    chunk=st.integers(50, 3_000),
    width=st.integers(1, 300),
)
@settings(max_examples=60, deadline=None)
def test_no_bucket_straddles_a_resume_and_each_has_a_segment_of_its_own(
    lengths: list[int], back: int, chunk: int, width: int
) -> None:
    parts, start = [], 0.0
    for length in lengths:
        parts.append(np.arange(start, start + length))
        start = max(0.0, start + length - back)
    x = np.concatenate(parts)
    y = curve(len(x), len(x), 0.05)
    found = fill(x, y, chunk).window(0, x.max(), width)
    assert_exact(found, x, y)
    begins = set(np.flatnonzero(np.diff(x) < 0) + 1)
    inside = {
        n for end, size in zip(np.cumsum(found.count), found.count, strict=True) for n in range(end - size + 1, end)
    }
    assert not begins & inside
    assert len(set(found.segment)) == len(begins) + 1


@given(count=st.integers(100, 60_000), cuts=st.lists(st.integers(1, 999), min_size=1, max_size=6), looks=st.booleans())
@settings(max_examples=40, deadline=None)
def test_the_pieces_in_which_points_arrive_change_nothing(count: int, cuts: list[int], looks: bool) -> None:
    x, y = np.arange(count, dtype=float), curve(count, 1, 0.01)
    if count > 5_000:
        x[count // 2 :] -= 1_000
        x[count // 3] = 1e12
    pieces = Series()
    for start, end in zip(edges := [0, *sorted(count * cut // 1000 for cut in cuts), count], edges[1:], strict=False):
        pieces.extend(x[start:end], y[start:end], x[start:end] * 0.1)
        if looks:
            _ = pieces.count
    whole = fill(x, y)
    for low, high in ((0, count), (count / 2, count), (count - 50, count)):
        one, other = pieces.window(low, high, 100), whole.window(low, high, 100)
        for field in Buckets.__slots__:
            np.testing.assert_array_equal(getattr(one, field), getattr(other, field))


@given(low=st.floats(0, 1), high=st.floats(0, 1), width=st.integers(10, 200))
@settings(max_examples=60, deadline=None)
def test_a_window_holds_every_point_of_its_range(low: float, high: float, width: int) -> None:
    low, high = sorted((low * WHOLE.count, high * WHOLE.count))
    found = WHOLE.window(low, high, width)
    wanted = set(range(math.ceil(low), min(math.floor(high), WHOLE.count - 1) + 1))
    covered: set[int] = set()
    for first, last, count in zip(found.x_first, found.x_last, found.count, strict=True):
        assert last - first + 1 == count
        covered |= set(range(int(first), int(last) + 1))
    assert wanted <= covered
    assert len(found) <= 2 * width + 2


WHOLE = fill(np.arange(300_000.0), curve(300_000, 5))


def test_append_and_extend_mix_in_order() -> None:
    series = Series()
    series.append(0, 1.0, 0.0)
    series.extend(np.array([1, 2]), np.array([2.0, 3.0]), np.array([0.1, 0.2]))
    series.append(3, 4.0, 0.3)
    x, y, t = series.recent(10)
    assert x.tolist() == [0, 1, 2, 3] and y.tolist() == [1, 2, 3, 4] and t.tolist() == [0.0, 0.1, 0.2, 0.3]
    assert (series.last_x, series.last_y, series.last_t) == (3, 4.0, 0.3)


def test_recent_points_come_one_by_one_when_zoomed_in() -> None:
    found = WHOLE.window(WHOLE.count - 50, WHOLE.count, 100)
    assert found.count.tolist() == [1] * 50
    assert (found.lo == found.hi).all()


def test_memory_stays_under_a_megabyte_however_long_the_run() -> None:
    series = Series()
    y = np.zeros(65_536, np.float32)
    for start in range(0, 160 * 65_536, 65_536):
        series.extend(np.arange(start, start + 65_536), y, np.arange(start, start + 65_536))
    assert series.count == 160 * 65_536
    assert series.nbytes < 1_000_000
    found = series.window(0, series.count, 200)
    assert found.count.sum() == series.count
    assert found.count.max() < 4 * found.count.min() + 2 * series.count / 400


def test_a_window_costs_the_same_after_a_hundred_times_the_steps() -> None:
    def cost(series: Series) -> float:
        times = []
        for _ in range(20):
            begin = time.perf_counter()
            series.window(0, series.count, 200)
            times.append(time.perf_counter() - begin)
        return min(times)

    assert cost(WHOLE) < 20 * cost(fill(np.arange(3_000.0), curve(3_000, 1)))


def test_a_nonfinite_value_is_counted_and_poisons_nothing() -> None:
    y = np.ones(10_000)
    y[[5_000, 5_001]] = np.nan, np.inf
    series = fill(np.arange(10_000.0), y)
    found = series.window(0, 10_000, 20)
    assert (series.nonfinite, series.first_nonfinite_x) == (2, 5_000)
    assert found.nonfinite.sum() == 2
    assert (found.mean == 1.0).all() and (found.hi == 1.0).all()


def test_where_a_long_curve_began_and_was_highest_first_stays_exact() -> None:
    """Whatever has become of the buckets there, and a value that is not finite is neither."""
    x = np.arange(200_000.0)
    y = np.minimum(2e-5 * (x + 1), 1e-3)
    y[[0, 49]] = np.nan, np.inf
    series = fill(x, y, 1_000)
    assert series.first_y == y[1] and series.highest == (50.0, 1e-3)
    empty = fill(x[:1], y[:1])
    assert empty.first_y is None and empty.highest is None


def test_a_bogus_far_future_step_hides_nothing_and_does_not_stretch_the_axis() -> None:
    x = np.arange(50_000.0)
    x[20_000:20_002] = 1e12, 1e12 + 1
    series = fill(x, np.arange(50_000.0), chunk=500)
    assert series.x_range == (0, 49_999)
    found = series.window(0, 50_000, 100)
    assert found.count.sum() == 49_998
    assert len(set(found.segment)) == 1
    assert series.y_at(30_000) == pytest.approx(30_000, abs=2_048)


def test_a_bogus_step_that_nothing_has_followed_yet_does_not_stretch_the_axis() -> None:
    series = Series()
    for x in (0, 1, 2, 3, 4, 5, 1e15):
        series.append(x, 1.0, x)
    assert series.x_range == (0, 5)
    assert series.last_x == 1e15


def test_a_long_logging_interval_is_no_bogus_step() -> None:
    series = fill(np.array([0.0, 5_000.0, 10_000.0]), np.array([3.0, 2.0, 1.0]))
    assert series.x_range == (0, 10_000)
    assert len(set(series.window(0, 10_000, 10).segment)) == 1


def test_points_without_a_finite_step_are_left_out() -> None:
    series = fill(np.array([0.0, np.nan, np.inf, 1.0]), np.array([1.0, 2.0, 3.0, 4.0]))
    assert series.count == 2
    assert series.window(0, 10, 10).last.tolist() == [1.0, 4.0]


def test_a_counter_that_restarts_every_epoch_is_bounded_in_time_and_memory() -> None:
    x = np.tile(np.arange(50.0), 20_000)
    begin = time.perf_counter()
    series = fill(x, np.ones(len(x)), chunk=256)
    assert series.count == 1_000_000
    assert time.perf_counter() - begin < 20
    assert series.nbytes < 1_000_000
    assert series.window(0, 50, 100).count.sum() == 1_000_000


def test_the_value_at_a_step_is_that_of_the_latest_attempt() -> None:
    x = np.concatenate((np.arange(1_000.0), np.arange(800.0, 900.0)))
    y = np.concatenate((np.full(1_000, 1.0), np.full(100, 2.0)))
    series = fill(x, y)
    assert series.y_at(850) == 2.0
    assert series.y_at(850.5) == 2.0
    assert series.y_at(500) == 1.0
    assert series.y_at(-1) is None


def test_the_value_at_an_old_step_is_near_it() -> None:
    y = np.arange(300_000.0)
    series = fill(y, y)
    assert series.y_at(1_000) == pytest.approx(1_000, abs=1_024)
    assert series.y_at(299_000) == 299_000


def test_edges_let_a_line_enter_and_leave_a_view_between_two_points() -> None:
    series = fill(np.array([0.0, 1_000.0, 2_000.0]), np.array([3.0, 2.0, 1.0]))
    assert len(series.window(1_200, 1_300, 50)) == 0
    assert series.window(1_200, 1_300, 50, edges=True).x.tolist() == [1_000, 2_000]
    assert series.window(900, 1_100, 50, edges=True).x.tolist() == [0, 1_000, 2_000]


def test_an_empty_series_says_so() -> None:
    series = Series()
    assert (series.count, series.last_x, series.last_y, series.x_range, series.y_at(3)) == (0, None, None, None, None)
    assert len(series.window(0, 1, 10)) == 0
    assert series.recent(5)[0].tolist() == []


def test_following_the_tail_does_not_shimmer() -> None:
    earlier = WHOLE.window(100_000, 200_000, 100)
    later = WHOLE.window(100_123, 200_123, 100)
    shared = np.intersect1d(earlier.x, later.x)
    assert len(shared) > 0.95 * len(later)


def test_raw_and_pyramid_agree_at_their_border() -> None:
    count = RAW_POINTS + 3 * CAPACITY + 5
    x = np.arange(float(count))
    found = fill(x, x, chunk=100).window(0, count, 50)
    assert_exact(found, x, x)


def test_smoothing_goes_on_after_a_nan() -> None:
    smooth = ema(np.array([1.0, 1.0, np.nan, np.inf, 1.0]), 0.1)
    np.testing.assert_allclose(smooth, [1, 1, np.nan, np.nan, 1])


def test_smoothing_has_no_bias_towards_zero_at_the_start() -> None:
    np.testing.assert_allclose(ema(np.array([5.0, 5.0]), 0.01), [5, 5])
    assert ema(np.array([0.0, 1.0]), 0.5)[1] == pytest.approx(2 / 3)


def test_smoothing_looks_the_same_at_every_zoom() -> None:
    values = np.concatenate((np.zeros(100), np.ones(100)))
    fine = ema(values, 0.05)
    coarse = ema(values[::10], 0.05, np.full(20, 10))
    np.testing.assert_allclose(coarse, fine[9::10], atol=1e-12)


def test_curves_of_one_block_share_its_steps_and_none_its_values() -> None:
    random = np.random.default_rng(5)
    blocks = [np.arange(first, first + 256) for first in range(0, 30_000, 256)]
    one, other, alone = Series("one"), Series("other"), Series("alone")
    for x in blocks:
        t, y = x * 0.1, random.normal(size=len(x))
        y[random.integers(len(x))] = math.nan
        one.extend(x, y, t)
        other.extend(x, -y, t)
        alone.extend(x.copy(), y, t.copy())
    for settled in (one, other, alone):
        assert settled.count == 256 * len(blocks)
    same = one.window(0, 30_000, 100), alone.window(0, 30_000, 100)
    for name in ("x", "lo", "hi", "mean", "count", "nonfinite", "t"):
        assert np.array_equal(getattr(same[0], name), getattr(same[1], name), equal_nan=True), name
    mirrored = other.window(0, 30_000, 100)
    assert np.array_equal(mirrored.hi, -same[0].lo) and np.array_equal(mirrored.x, same[0].x)
    assert one.nonfinite == len(blocks) == int(same[0].nonfinite.sum())
    assert np.isfinite(same[0].mean).all()
