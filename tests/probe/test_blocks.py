"""Rows of the training thread as columnar blocks: every number, at its step, and no invented one."""

from __future__ import annotations

from ntstop_probe.blocks import records_of as blocks_of
from ntstop_probe.rows import Row, StepRow
from ntstop_probe.wire import Steps, unpack

from .publishing import step
from .reading import losses


def test_steps_become_blocks_that_hold_every_number_and_no_invented_one() -> None:
    rows: list[Row] = [
        StepRow(0, 10.0, None, losses={"loss": 1.5}, lrs={"lr": 0.1}, epoch=0, micro=2, skipped=0),
        StepRow(1, 11.0, 1.0, step=7, losses={"loss/1": float("nan")}, phases={"data": 0.25}, grad_norm=3.0),
        StepRow(2, 12.0, 1.0, samples=96, tokens=10**12, loss_scale=65536.0, clip=0.5),
    ]
    layers, (block,) = blocks_of(rows, attempt=3)
    assert layers == []
    assert isinstance(block, Steps)
    assert (block.count, block.ordinal, block.attempt) == (3, 0, 3)

    def values(column: object) -> list[float | int | None]:
        return unpack(column)  # type: ignore[arg-type]

    assert values(block.t) == [10.0, 11.0, 12.0]
    assert values(block.duration) == [None, 1.0, 1.0]
    assert values(block.step) == [None, 7, None]
    assert values(block.losses["loss"]) == [1.5, None, None]
    assert repr(values(block.losses["loss/1"])) == "[None, nan, None]"
    assert values(block.lrs["lr"]) == [0.1, None, None]
    assert values(block.phases["data"]) == [None, 0.25, None]
    assert values(block.samples) == [None, None, 96]
    assert values(block.tokens) == [None, None, 10**12]
    assert values(block.skipped) == [0, None, None]
    assert block.optimizers is None, "what no step measured is no column"


def test_a_block_ends_where_ordinals_jump_or_the_meaning_of_its_columns_changes() -> None:
    rows: list[Row] = [step(0), step(1), step(5), step(6, clocks={"forward": "device"}), step(7, step_source="user")]
    _, blocks = blocks_of(rows, attempt=0)
    assert [(block.ordinal, block.count) for block in blocks if isinstance(block, Steps)] == [
        (0, 2), (5, 1), (6, 1), (7, 1),
    ]  # fmt: skip


def test_a_number_its_column_cannot_hold_is_missing_and_the_block_is_whole() -> None:
    _, (block,) = blocks_of([step(0, 1.0, micro=2**40), step(1, 2.0, micro=3)], attempt=0)
    assert isinstance(block, Steps)
    assert block.micro is not None
    assert unpack(block.micro) == [None, 3]
    assert losses([block]) == [1.0, 2.0]
