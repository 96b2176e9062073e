"""Steps that wait to become curves together give the curves that they give one block after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ntstop.run.state import RunState
from ntstop.run.waiting import MOST_BLOCKS
from ntstop_probe import wire

NAMES = ("loss", "loss/1", "lr", "data", "grad_norm")


def packed(random: np.random.Generator, count: int) -> wire.Column | None:
    """A column of some kind: whole, with gaps, without anything, or of a wrong length."""
    how = random.choice(["whole", "gaps", "none", "wrong", "whole", "whole"])
    values: list[float | None] = [*random.normal(size=count).tolist()]
    if how == "gaps":
        values = [None if random.random() < 0.4 else value for value in values]
    if how == "wrong":
        values = values[:-1]
    return None if how == "none" else wire.pack(random.choice(["f4", "f8"]), values)


def blocks(seed: int, number: int) -> list[wire.Steps]:
    """Blocks in a row, each with what a job may leave out."""
    random, made, at = np.random.default_rng(seed), [], 0
    for _ in range(number):
        count = int(random.integers(1, 40))
        clock = wire.pack("f8", [at + 0.5 * index for index in range(count)])
        steps: list[int | None] = list(range(2 * at, 2 * (at + count), 2))
        step = None if seed % 3 == 0 else wire.pack("i8", steps)
        if seed % 3 == 2 and random.random() < 0.2:
            step = wire.pack("i8", [None, *steps[1:]])
        columns = {name: column for name in NAMES if (column := packed(random, count)) is not None}
        assert clock is not None
        made.append(
            wire.Steps(
                count,
                at,
                clock,
                step=step,
                losses={name: columns[name] for name in NAMES[:2] if name in columns},
                lrs={name: columns[name] for name in NAMES[2:3] if name in columns},
                phases={name: columns[name] for name in NAMES[3:4] if name in columns},
                grad_norm=columns.get("grad_norm"),
            )
        )
        at += count
    return made


@given(st.integers(0, 10_000), st.integers(1, 30))
@settings(max_examples=60, deadline=None)
def test_looking_after_every_block_or_at_the_end_shows_the_same(seed: int, number: int) -> None:
    often, once = RunState(), RunState()
    for block in blocks(seed, number):
        for state in (often, once):
            state.apply(1, block)
        assert often.primary is not None and len(often.primary.series) >= 0
    first, second = often.processes[1], once.processes[1]
    assert (first.x, first.stride, first.first_x) == (second.x, second.stride, second.first_x)
    assert first.last_t == second.last_t
    assert first.series.keys() == second.series.keys()
    for name, curve in first.series.items():
        other = second.series[name]
        assert (curve.count, curve.x_range, curve.last_x) == (other.count, other.x_range, other.last_x), name
        np.testing.assert_array_equal(curve.recent(4096), other.recent(4096))
    assert first.misfits == second.misfits
    assert first.phase_names == second.phase_names


@pytest.mark.parametrize("count", [1, 300])
def test_what_waits_is_bounded(count: int) -> None:
    state = RunState()
    for at in range(0, 5 * MOST_BLOCKS * count, count):
        values = wire.pack("f8", [float(index) for index in range(at, at + count)])
        assert values is not None
        state.apply(1, wire.Steps(count, at, values, losses={"loss": values}))
        waiting = state.processes[1].track._waiting
        assert len(waiting._blocks) < MOST_BLOCKS
    assert state.processes[1].series["loss"].count == 5 * MOST_BLOCKS * count
