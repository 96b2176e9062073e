"""Steps as they really come: back after a resume, absurd, twice, out of order, rarely, and under thousands of names."""

from __future__ import annotations

import math
import tracemalloc
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ntstop.curves.series import Series
from ntstop.run.state import RunState
from ntstop_probe.wire import Heartbeat, Hello, Layers, Scalars, Schema, pack

from .writer import steps


def hello(*, attempt: int = 0, wall: float = 1.7e9, rank: int | None = 0) -> Hello:
    return Hello(1, "run", "w", "h", "b", "p", 1, 1.0, attempt, 100.0, wall, rank)


def curve(x: list[float], *, at_once: bool) -> Series:
    series = Series("loss")
    if at_once:
        numbers = np.array(x)
        series.extend(numbers, numbers, np.arange(len(x), dtype=float))
    for index, step in enumerate(() if at_once else x):
        series.append(step, step, float(index))
        assert series.count == index + 1
    return series


def test_resume_that_goes_back_begins_a_segment_and_overwrites_nothing() -> None:
    state = RunState()
    state.apply(1, hello())
    state.apply(1, steps(0, [1.0] * 15, at=0))
    state.apply(2, hello(attempt=1))
    state.apply(2, steps(0, [2.0] * 10, at=10, attempt=1))
    assert state.primary is not None
    loss = state.primary.series["loss"]
    assert loss.count == 25
    shown = loss.window(0, 20, 100)
    assert shown.x.tolist() == [*range(15), *range(10, 20)]
    assert shown.last.tolist() == [1.0] * 15 + [2.0] * 10
    assert len(set(shown.segment[:15])) == len(set(shown.segment[15:])) == 1
    assert shown.segment[14] != shown.segment[15]
    assert loss.y_at(12) == 2.0 and loss.y_at(9) == 1.0


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("strays", [[1e9], [1e6, 1e9], [1e9, 1e6], [1e9, 1e8, 1e7, 1e6], [1e9, 1e9]])
def test_absurd_steps_in_any_order_neither_hide_nor_stretch(strays: list[float], at_once: bool) -> None:
    series = curve([*map(float, range(200)), *strays, *map(float, range(200, 400))], at_once=at_once)
    assert series.x_range == (0.0, 399.0)
    shown = series.window(0, 399, 1000)
    assert shown.x.tolist() == list(range(400))
    assert len(set(shown.segment)) == 1
    assert series.count == 400 + len(strays)


@given(st.sets(st.sampled_from([1e4, 1e6, 1e8, 1e10])), st.booleans(), st.integers(20, 200), st.booleans())
@settings(max_examples=40, deadline=None)
def test_up_to_four_absurd_steps_leave_the_axis_alone(strays: set[float], falling: bool, at: int, once: bool) -> None:
    absurd = sorted(strays, reverse=falling)
    series = curve([*map(float, range(at)), *absurd, *map(float, range(at, at + 50))], at_once=once)
    assert series.x_range == (0.0, at + 49.0)


def test_writers_out_of_order_and_twice_keep_every_point() -> None:
    whole = sorted(step for order in permutations(range(4)) for step in order)
    state = RunState()
    state.apply(1, hello())
    for order in permutations(range(4)):
        for step in order:
            state.apply(1, Scalars(float(step), step, 0, {"val": float(step)}))
    assert state.primary is not None
    val = state.primary.series["val"]
    shown = val.window(0, 3, 500)
    assert sorted(np.repeat(shown.x, shown.count).tolist()) == whole
    assert val.x_range == (0.0, 3.0)


def test_sparse_curve_beside_a_dense_one_keeps_its_own_points() -> None:
    state = RunState()
    state.apply(1, hello())
    for first in range(0, 20_000, 100):
        state.apply(1, steps(first, [1.0] * 100))
        if first % 1000 == 0:
            state.apply(1, Scalars(1.0, first, first, {"val": float(first)}))
    assert state.primary is not None
    assert state.primary.series["val"].window(0, 20_000, 50).x.tolist() == list(range(0, 20_000, 1000))
    assert int(state.primary.series["loss"].window(0, 20_000, 50).count.sum()) == 20_000


def test_wall_clock_that_jumps_makes_no_duration_negative() -> None:
    state = RunState()
    state.apply(1, hello(wall=1.7e9))
    state.apply(1, steps(0, [1.0] * 100))
    for beat, wall in enumerate((1.7e9, 1.6e9, 1.8e9)):
        state.apply(1, Heartbeat(1010.0 + beat, wall, "forward", 0.1, 100))
    state.apply(1, steps(100, [1.0] * 100))
    assert state.primary is not None
    times = state.primary.series["loss"].recent(200)[2]
    assert (np.diff(times) > 0).all()
    assert state.primary.rate == pytest.approx(10.0, rel=1e-3)
    assert state.primary.wall_at(1012.0) == 1.8e9


def test_five_thousand_names_with_few_points_take_little_room() -> None:
    """At most 8 kB a name: 40 MB for 5,000 of them."""
    state = RunState()
    state.apply(1, hello())
    tracemalloc.start()
    for step in range(20):
        state.apply(1, Scalars(float(step), step, step, {f"metric/{index}": 1.0 for index in range(5000)}))
    assert state.primary is not None
    series = state.primary.series
    assert sum(series[f"metric/{index}"].count for index in range(5000)) == 100_000
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held / 5000 < 8_000, f"{held / 5000:.0f} bytes a name"


def test_constant_has_a_range_and_no_band() -> None:
    series = Series("lr")
    for step in range(10_000):
        series.append(step, 0.001, float(step))
    shown = series.window(0, 10_000, 100)
    assert (shown.lo == 0.001).all() and (shown.hi == 0.001).all()
    assert np.allclose(shown.mean, 0.001, rtol=1e-12)


@pytest.mark.parametrize("length", [3, 1001, 200_001])
def test_single_point_between_nans_is_there_at_every_zoom(length: int) -> None:
    y = np.full(length, math.nan)
    y[length // 2] = 7.0
    series = Series("val")
    series.extend(np.arange(length), y, np.arange(length, dtype=float))
    for width in (1, 10, 120, 1000):
        shown = series.window(0, length, width)
        assert np.nanmax(shown.hi) == np.nanmin(shown.lo) == 7.0
        assert int(shown.nonfinite.sum()) == length - 1


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_layers_are_kept_of_the_first_rank_only(order: tuple[int, ...]) -> None:
    state = RunState()
    for rank in order:
        state.apply(rank, hello(rank=rank))
        state.apply(rank, Schema(1, ["a", "b"], [1, 1]))
    for step in range(50):
        for rank in order:
            norms = pack("f4", [float(rank), 1.0])
            assert norms is not None
            state.apply(rank, Layers(1, step, None, 0.1 * step, {"grad_norm": norms}))
    assert state.primary is not None and state.primary.rank == 0
    assert state.primary.layers["grad_norm"].samples == 50
    assert state.primary.layers["grad_norm"].column_at(49)[0].tolist() == [0.0, 1.0]
    assert [process.rank for process in state.processes.values() if process.layers] == [0]


def test_hosts_whose_clocks_differ_give_no_negative_duration() -> None:
    state = RunState()
    for rank, wall in ((0, 1.7e9), (1, 1.7e9 - 40.0), (2, 1.7e9 + 3600.0)):
        state.apply(rank, hello(rank=rank, wall=wall))
        state.apply(rank, steps(0, [1.0] * 100))
        state.apply(rank, Heartbeat(1010.0, wall, "forward", 0.1, 100))
    for process in state.ranks.values():
        assert (process.series["step_time"].recent(100)[1] > 0).all()
        assert (np.diff(process.series["loss"].recent(100)[2]) > 0).all()
        assert process.rate == pytest.approx(10.0, rel=1e-3)


@given(st.lists(st.tuples(st.sampled_from(["a", "ab", "ba", "b", "loss"]), st.booleans()), min_size=1, max_size=60))
@settings(max_examples=60, deadline=None)
def test_rows_with_changing_names_keep_every_point_in_order_whenever_somebody_looks(
    rows: list[tuple[str, bool]],
) -> None:
    state = RunState()
    state.apply(1, hello())
    process = state.processes[1]
    wanted: dict[str, list[float]] = {}
    for step, (names, looks) in enumerate(rows):
        row = {name: float(step) for name in ([names] if names == "loss" else names)}
        state.apply(1, Scalars(float(step), step, step, row))
        for name in row:
            wanted.setdefault("logged/loss" if name == "loss" else name, []).append(float(step))
        if looks:
            assert {name: series.recent(100)[1].tolist() for name, series in process.series.items()} == wanted
    assert {name: series.recent(100)[0].tolist() for name, series in process.series.items()} == wanted
