"""Of a thousand ranks only what is shown beside each other is kept, and judged, and it is what all of it would tell."""

from __future__ import annotations

import math

import pytest

from ntstop.diagnosis.block import StepBlock
from ntstop.diagnosis.engine import BEATS_WAITING, MANY, SILENT_BEATS, Engine
from ntstop.run.process import MANY as WHOLE
from ntstop.run.state import RunState
from ntstop.tui.widgets.ranks import rank_lines
from ntstop_probe import wire

from .records import Script, beat, descent, hello

RANKS = max(MANY, WHOLE) + 8


def host(t: float, rss: int) -> wire.Host:
    return wire.Host(t, 1.0, rss, 2.0, 8, 10**10, 10**11, 0.0, 0, 0)


def script(rank: int, *, step_time: float = 0.1) -> list[wire.Record]:
    """A run of 300 steps in small blocks, with a host and a logged number now and then."""
    run = Script(step_time=step_time, block=2).add(hello(rank=rank))
    for _ in range(3):
        run.steps(descent(100)).add(
            host(run.t, 10**9 + rank), wire.Scalars(run.t, None, run.ordinal, {"accuracy": 0.5})
        )
    return run.records


def state_of(ranks: int) -> RunState:
    state = RunState()
    for rank in range(ranks):
        for record in script(rank, step_time=0.1 if rank != ranks - 1 else 0.15):
            state.apply(rank + 1, record)
    return state


def test_a_rank_among_many_keeps_the_curve_of_its_step_time_and_no_other() -> None:
    state = state_of(RANKS)
    first, last = state.processes[1], state.processes[RANKS]
    assert state.primary is first and {"loss", "lr", "host/process_rss", "accuracy"} <= first.series.keys()
    assert set(last.series) == {"step_time"}
    for at in (-1.0, 0.0, 33.5, 299.0, 400.0):
        assert last.at("step_time", at) == pytest.approx(last.series["step_time"].y_at(at)), at
        assert last.at("loss", at) is None
    for process in (first, last):
        x, y, _ = process.series["step_time"].recent(400)
        assert x.tolist() == list(range(300))
        assert y == pytest.approx(0.1 if process is first else 0.15)
    assert sum(len(process.series) for process in state.processes.values()) < WHOLE * len(first.series) + RANKS


def test_a_rank_among_many_has_the_same_line_as_one_of_few() -> None:
    state, alone = state_of(RANKS), RunState()
    for record in script(RANKS - 1, step_time=0.15):
        alone.apply(RANKS, record)
    few, many = rank_lines(alone.ranks, live=False)[0], rank_lines(state.ranks, live=False)[-1]
    for name in ("rank", "host", "state", "step", "seconds", "wait", "memory", "busy", "loss"):
        assert getattr(few, name) == getattr(many, name), name
    assert state.processes[RANKS].rate == pytest.approx(alone.processes[RANKS].rate)
    assert many.beside_peers == pytest.approx(1.5)


def test_steps_that_lack_a_value_and_numbered_steps_are_kept_of_a_rank_among_many_too() -> None:
    state = state_of(RANKS)
    process = state.processes[RANKS]

    def block(ordinal: int, steps: list[int | None], took: list[float | None]) -> wire.Steps:
        t, step = wire.pack("f8", [100.0 + ordinal, 101.0 + ordinal]), wire.pack("i8", steps)
        loss, duration = wire.pack("f8", [math.nan, None]), wire.pack("f4", took)
        assert t is not None and loss is not None
        return wire.Steps(2, ordinal, t, duration, step, losses={"loss": loss})

    state.apply(RANKS, block(300, [3000, 3010], [0.5, 0.25]))
    state.apply(RANKS, block(302, [3020, None], [None, 0.75]))
    x, y, _ = process.series["step_time"].recent(3)
    assert x.tolist() == [3000, 3010, 3021] and y.tolist() == [0.5, 0.25, 0.75]
    assert (process.steps, process.ordinal, process.x, process.stride) == (304, 303, 3021.0, 1.0)
    assert math.isnan(process.newest("loss") or 0.0) and not process.misfits


def test_a_rank_that_comes_before_all_others_is_drawn_whole_however_late_it_comes() -> None:
    state = RunState()
    for rank in range(1, RANKS):
        state.apply(rank, hello(rank=rank))
    for record in script(0):
        state.apply(99, record)
    assert state.primary is state.processes[99] and "loss" in state.primary.series


def judged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Steps of each block that is judged from now on."""
    counts: list[int] = []
    of = StepBlock.of

    def counting(record: wire.Steps) -> StepBlock | None:
        counts.append(record.count)
        return of(record)

    monkeypatch.setattr(StepBlock, "of", counting)
    return counts


def led(ranks: int) -> Engine:
    """An engine whose rank 0 has told a loss."""
    engine = Engine()
    for rank in range(ranks):
        engine.observe(rank + 1, hello(rank=rank))
    for record in Script(block=2).steps(descent(2)).records:
        engine.observe(1, record)
    return engine


def test_steps_of_some_calm_seconds_are_judged_together(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, counts = led(RANKS), judged(monkeypatch)
    for record in Script(block=2).steps(descent(200)).records:
        engine.observe(RANKS, record)
    # Ten steps a second; the first heartbeat has none before it to be compared with.
    assert counts == [10, *[10 * BEATS_WAITING] * 4]
    engine.settle()
    assert sum(counts) == 200


@pytest.mark.parametrize("odd", ["stuck", "eval", "stacks"])
def test_a_heartbeat_that_is_not_calm_waits_for_the_steps_before_it(odd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, counts = led(RANKS), judged(monkeypatch)
    run = Script(block=2).steps(descent(15))
    for record in run.records:
        engine.observe(RANKS, record)
    before = sum(counts)
    stuck = wire.Heartbeat(run.t, 1.0, "eval" if odd == "eval" else "forward", 30.0 if odd == "stuck" else 0.1, 15)
    if odd == "stacks":
        stuck = wire.Heartbeat(run.t, 1.0, "forward", 0.1, 15, [wire.Stack("main", ["f (a.py:1)"])])
    engine.observe(RANKS, stuck)
    assert before < sum(counts) == 15


def test_steps_of_a_rank_that_has_fallen_silent_are_judged_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, counts = led(RANKS), judged(monkeypatch)
    engine.observe(RANKS, Script(block=2).steps(descent(2)).records[0])
    assert not counts
    for second in range(2 * SILENT_BEATS):
        engine.observe(1, beat(200.0 + second, 2))
    assert counts == [2]
