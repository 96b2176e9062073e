"""The state of a run: records in, curves out."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ntstop.run.process import EVENTS, ProcessState
from ntstop.run.state import RunState
from ntstop.sources import columns
from ntstop_probe.wire import (
    PROTOCOL,
    Allocator,
    Column,
    Device,
    Event,
    Heartbeat,
    Hello,
    Host,
    Layers,
    Record,
    Scalars,
    Schema,
    pack,
)

from .writer import EPOCH, column, steps


def hello(rank: int | None = None, attempt: int = 0, run: str = "run-1", total: int | None = None) -> Hello:
    return Hello(
        PROTOCOL, run, "folder", "host", "boot", "ns", 1, 1.0, attempt, EPOCH, 5_000.0, rank, total_steps=total
    )


def after(*records: Record) -> ProcessState:
    state = RunState()
    for record in records:
        state.apply(1, record)
    return state.processes[1]


def xy(process: ProcessState, name: str) -> tuple[list[float], list[float]]:
    x, y, _ = process.series[name].recent(4_000)
    return x.tolist(), y.tolist()


def test_columns_keep_missing_apart_from_nan() -> None:
    packed = column("f8", [1.0, None, math.nan, math.inf, 0.0])
    np.testing.assert_array_equal(columns.to_floats(packed), [1, math.nan, math.nan, math.inf, 0])
    assert columns.present(packed).tolist() == [True, False, True, True, True]
    assert columns.present(column("i8", [1, 2])).tolist() == [True, True]
    for broken in (Column("f8", b"1234567"), Column("f8", bytes(32), b"\xff\xff")):
        with pytest.raises(ValueError):
            columns.present(broken)


@pytest.mark.parametrize("kind", ["f4", "f8", "i4", "i8", "u1"])
def test_every_kind_of_column_is_read(kind: str) -> None:
    assert columns.to_floats(column(kind, [0, 1, 200])).tolist() == [0, 1, 200]


def test_a_block_of_steps_becomes_curves() -> None:
    process = after(steps(0, [3.0, 2.0, 1.0]))
    assert xy(process, "loss") == ([0, 1, 2], [3, 2, 1])
    assert xy(process, "lr") == ([0, 1, 2], [0.001] * 3)
    assert xy(process, "step_time")[1] == pytest.approx([0.1] * 3)
    assert list(process.phases) == ["data", "forward"]
    assert xy(process, "phase/data")[1] == pytest.approx([0.01] * 3)
    assert xy(process, "grad_norm")[1] == [1, 1, 1]
    assert (process.steps, process.ordinal, process.x, process.last_t) == (3, 2, 2, pytest.approx(EPOCH + 0.3))
    assert "clip" not in process.series
    assert process.rate == pytest.approx(10)


def test_what_was_not_measured_is_no_point_and_nan_is_one() -> None:
    process = after(steps(0, [3.0, None, math.nan]))
    assert xy(process, "loss")[0] == [0, 2]
    assert process.series["loss"].nonfinite == 1
    assert process.series["grad_norm"].count == 3


def test_the_global_step_is_the_axis_where_the_job_has_one() -> None:
    process = after(steps(0, [1.0, 1.0], at=5_000))
    assert xy(process, "loss")[0] == [5_000, 5_001]
    assert (process.x, process.ordinal) == (5_001, 1)


def test_where_only_some_global_steps_are_known_the_others_lie_between() -> None:
    block = msgspec.structs.replace(steps(0, [1.0] * 5), step=column("i8", [None, 11, None, 13, None]))
    assert xy(after(block), "loss")[0] == [10, 11, 12, 13, 14]


def test_what_the_user_logs_without_a_step_lies_at_that_of_its_ordinal() -> None:
    process = after(
        steps(0, [1.0, 1.0], at=5_000), Scalars(1.0, None, 2, {"val/loss": 0.5}), Scalars(1.0, 77, 2, {"acc": 1.0})
    )
    assert xy(process, "val/loss") == ([5_002], [0.5])
    assert xy(process, "acc") == ([77], [1.0])


def test_what_the_user_logs_under_the_name_of_something_measured_is_a_curve_beside_it() -> None:
    logged = {"loss": 9.0, "lr/1.0": 9.0, "grad_norm": 9.0, "host/process_cpu": 9.0, "loss/train": 0.5, "lr/AdamW": 0.5}
    process = after(steps(0, [1.0, 1.0]), Scalars(1.0, 1, 1, logged))
    assert xy(process, "loss") == ([0, 1], [1.0, 1.0])
    for name, value in logged.items():
        assert xy(process, f"logged/{name}" if value == 9.0 else name) == ([1], [value])


def test_samples_of_the_machine_are_curves_and_absent_is_no_zero() -> None:
    process = after(
        steps(0, [1.0, 1.0]),
        Host(7.0, process_cpu=1.5, process_rss=100),
        Device(7.0, 0, name="H100", utilization=None, memory_used=5),
        Allocator(7.0, 1, allocated=9),
    )
    assert xy(process, "host/process_cpu") == ([1], [1.5])
    assert xy(process, "gpu0/memory_used") == ([1], [5])
    assert xy(process, "alloc1/allocated") == ([1], [9])
    assert process.devices == {0: "H100"}
    assert "gpu0/utilization" not in process.series and "host/host_cpu" not in process.series
    assert process.series["host/process_cpu"].last_t == 7.0


def layers(**fields: list[float | None]) -> Layers:
    packed = {name: pack("f4", values) for name, values in fields.items()}
    return Layers(1, 3, None, EPOCH, {name: values for name, values in packed.items() if values is not None})


def test_layers_become_matrices_with_their_ratio() -> None:
    process = after(
        Schema(1, ["a", "b", "c", "d"]),
        layers(grad_norm=[1.0, None, 3.0, math.nan], param_norm=[2.0, 1.0, 0.0, 1.0]),
    )
    assert process.layer_names == ("a", "b", "c", "d")
    mean, nonfinite = process.layers["ratio"].column_at(3)
    np.testing.assert_array_equal(mean, [0.5, np.nan, np.nan, np.nan])
    assert nonfinite.tolist() == [False, False, False, True]
    np.testing.assert_array_equal(process.layers["grad_norm"].column_at(3)[0], [1, np.nan, 3, np.nan])


def test_other_layers_start_anew_and_the_same_go_on() -> None:
    one = layers(grad_norm=[1.0, 2.0])
    process = after(Schema(1, ["a", "b"]), one, Schema(1, ["a", "b"]), one)
    assert process.layers["grad_norm"].samples == 2
    process = after(Schema(1, ["a", "b"]), one, Schema(2, ["a"]))
    assert process.layers == {}


def test_layers_without_their_schema_are_counted_and_left_out() -> None:
    process = after(layers(grad_norm=[1.0]), Schema(1, ["a", "b"]), layers(grad_norm=[1.0]))
    assert (process.skipped_layers, process.misfits) == (1, 1)
    assert process.layers == {}


def test_attempts_of_a_rank_share_one_axis_and_a_resume_breaks_the_line() -> None:
    state = RunState()
    for writer, attempt, first in ((1, 0, 0), (2, 1, 6)):
        state.apply(writer, hello(rank=0, attempt=attempt))
        state.apply(writer, steps(0, [1.0] * 10, at=first))
    assert state.primary is state.processes[2]
    assert state.processes[1].series is state.processes[2].series
    loss = state.processes[2].series["loss"]
    assert loss.recent(99)[0].tolist() == [*range(10), *range(6, 16)]
    assert len(set(loss.window(0, 20, 50).segment)) == 2


def test_attempts_of_a_job_without_a_rank_share_one_axis_and_siblings_do_not() -> None:
    state = RunState()
    for writer, attempt in ((1, 0), (2, 0), (3, 1)):
        state.apply(writer, hello(attempt=attempt))
        state.apply(writer, steps(0, [float(writer)]))
    assert state.processes[3].series["loss"].count == 2
    assert sorted(process.series["loss"].count for process in state.processes.values()) == [1, 2, 2]


def test_a_rank_that_becomes_known_late_takes_its_first_steps_along() -> None:
    state = RunState()
    state.apply(1, hello(rank=0))
    state.apply(1, steps(0, [1.0] * 5))
    state.apply(2, hello(attempt=1))
    state.apply(2, steps(0, [2.0] * 2, at=5))
    state.apply(2, hello(rank=0, attempt=1))
    state.apply(2, steps(2, [3.0] * 2, at=7))
    assert xy(state.processes[2], "loss") == ([*range(9)], [1.0] * 5 + [2.0] * 2 + [3.0] * 2)
    assert state.primary is state.processes[2]


def test_rank_0_is_the_primary_and_a_launcher_is_not() -> None:
    state = RunState()
    assert state.primary is None
    state.apply(9, hello())
    assert state.primary is state.processes[9]
    for writer, rank in ((1, 1), (2, 0)):
        state.apply(writer, hello(rank=rank))
    assert state.primary is state.processes[2]
    assert [*state.ranks] == [None, 0, 1]


def test_events_are_bounded_and_those_that_matter_stay() -> None:
    records: list[Record] = [Event(1.0, "exception", "boom"), Event(1.0, "warning", "no NVML")]
    records += [Event(float(index), "mark") for index in range(3 * EVENTS)]
    process = after(*records, Event(9.0, "checkpoint"), Event(10.0, "exit", data={"code": 1}))
    assert len(process.events) == EVENTS and process.events_seen == 3 * EVENTS + 4
    assert process.exception is not None and process.exception.text == "boom"
    assert process.exit is not None and process.exit.data == {"code": 1}
    assert process.checkpoint is not None
    assert [event.text for event in process.warnings] == ["no NVML"]


def test_the_heartbeat_pairs_the_clocks() -> None:
    process = after(hello())
    assert process.wall_at(EPOCH + 10) == 5_010
    process = after(hello(), Heartbeat(EPOCH + 100, 5_101.0, "backward", 2.0, 7))
    assert process.wall_at(EPOCH + 110) == 5_111
    assert process.phase == "backward"
    assert process.heartbeat_arrival is not None


def test_the_time_left_comes_from_the_rate() -> None:
    process = after(hello(total=1_000), steps(0, [1.0] * 100))
    assert process.eta == pytest.approx((1_000 - 99) * 0.1, rel=1e-3)
    assert after(steps(0, [1.0] * 100)).eta is None


def test_names_with_any_characters_are_kept_as_they_are() -> None:
    name = "損失/🔥\x1b[31m"
    assert xy(after(Scalars(1.0, 1, 0, {name: 2.0})), name) == ([1], [2.0])


@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["steps", *range(4)])), max_size=12))
def test_ranks_and_the_first_of_them_are_found_anew_whenever_they_may_be_others(
    told: list[tuple[int, str | int]],
) -> None:
    looked_at = RunState()
    records = [
        (
            writer,
            steps(0, [2.0, 1.0]) if what == "steps" else hello(rank=[None, 0, 0, 1][int(what)], attempt=int(what) % 3),
        )
        for writer, what in told
    ]
    for count, (writer, record) in enumerate(records, 1):
        looked_at.apply(writer, record)
        never_looked_at = RunState()
        for earlier in records[:count]:
            never_looked_at.apply(*earlier)
        assert looked_at.primary is not None and never_looked_at.primary is not None
        assert looked_at.primary.writer == never_looked_at.primary.writer
        assert list(looked_at.ranks) == list(never_looked_at.ranks)
        assert [one.writer for one in looked_at.ranks.values()] == [
            one.writer for one in never_looked_at.ranks.values()
        ]
