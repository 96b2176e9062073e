"""Small blocks of steps joined: the same steps, the same findings."""

from __future__ import annotations

import math
from typing import ClassVar

from hypothesis import given
from hypothesis import strategies as st

from ntstop.diagnosis.block import StepBlock
from ntstop.diagnosis.engine import MANY, Engine
from ntstop.diagnosis.joining import Joiner
from ntstop.diagnosis.rules import Rule
from ntstop_probe import wire

from .records import Script, beat, descent, hello

values = st.one_of(st.floats(), st.none())


def columns(blocks: list[wire.Steps]) -> list[tuple[object, ...]]:
    rows = []
    for block in blocks:
        losses = {name: wire.unpack(column) for name, column in block.losses.items()}
        norms = wire.unpack(block.grad_norm) if block.grad_norm else [None] * block.count
        for at in range(block.count):
            told = tuple(sorted((name, repr(column[at])) for name, column in losses.items()))
            rows.append((block.ordinal + at, wire.unpack(block.t)[at], told, repr(norms[at])))
    return rows


def joined(blocks: list[wire.Steps]) -> list[wire.Steps]:
    joiner = Joiner()
    for block in blocks:
        joiner.add(block)
    return joiner.take()


@given(st.lists(st.lists(st.tuples(values, values), min_size=1, max_size=4), max_size=8), st.integers(0, 2))
def test_no_step_is_changed_or_lost(parts: list[list[tuple[float | None, float | None]]], gap: int) -> None:
    blocks, ordinal = [], 0
    for part in parts:
        loss, norm = wire.pack("f8", [a for a, _ in part]), wire.pack("f8", [b for _, b in part])
        t = wire.pack("f8", [float(ordinal + at) for at in range(len(part))])
        assert t is not None
        losses = {} if loss is None else {"loss": loss}
        blocks.append(wire.Steps(count=len(part), ordinal=ordinal, t=t, losses=losses, grad_norm=norm))
        ordinal += len(part) + gap
    assert columns(joined(blocks)) == columns(blocks)


def test_whole_blocks_that_follow_each_other_become_one() -> None:
    blocks = [record for record in Script(block=2).steps(descent(40)).records if isinstance(record, wire.Steps)]
    assert [block.count for block in joined(blocks)] == [40]


def test_a_thousand_ranks_are_judged_as_a_few_are() -> None:
    engine = Engine()
    scripts = [Script(block=2).add(hello(rank=rank)).steps(descent(40)).records for rank in range(MANY)]
    for records in zip(*scripts, strict=True):
        for number, record in enumerate(records):
            engine.observe(number + 1, record)
    t = wire.pack("f8", [100.0])
    loss = wire.pack("f8", [math.nan])
    assert t is not None and loss is not None
    engine.observe(7, wire.Steps(count=1, ordinal=40, t=t, losses={"loss": loss}))
    engine.observe(7, beat(101.0, 41))
    assert [(f.rank, f.first_step) for f in engine.findings if f.kind == "nonfinite-loss"] == [(6, 40)]


def test_steps_between_two_heartbeats_are_judged_together_and_what_was_logged_in_them_behind_them() -> None:
    class Told(Rule):
        seen: ClassVar[list[object]] = []

        def steps(self, block: StepBlock) -> None:
            self.seen.append(block.count)

        def scalars(self, scalars: wire.Scalars) -> None:
            self.seen.append(scalars.ordinal)

    engine = Engine([Told])
    blocks = [record for record in Script(block=2).steps(descent(12)).records if isinstance(record, wire.Steps)]
    engine.observe(1, beat(100.0, 0))
    for block in blocks[:3]:
        engine.observe(1, block)
        engine.observe(1, wire.Scalars(t=100.1, step=None, ordinal=block.ordinal, values={"val/loss": 1.0}))
    assert Told.seen == []
    engine.observe(1, beat(101.0, 6))
    assert Told.seen == [6, 0, 2, 4]
    engine.observe(1, blocks[3])
    engine.settle(patient=True)
    assert Told.seen[4:] == []
    engine.settle()
    assert Told.seen[4:] == [2]


def test_steps_of_a_log_which_has_no_heartbeat_are_judged_at_once() -> None:
    engine = Engine()
    t, loss = wire.pack("f8", [100.0]), wire.pack("f8", [math.nan])
    assert t is not None and loss is not None
    engine.observe(1, wire.Steps(count=1, ordinal=0, t=t, losses={"loss": loss}))
    assert [finding.kind for finding in engine.findings] == ["nonfinite-loss"]
