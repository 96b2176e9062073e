"""The order of the data: told where epochs repeat it, silent where it is drawn anew or where the curve repeats."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from ntstop.diagnosis.engine import Engine
from ntstop_probe import wire

from .records import Script, diagnose, hello, kinds, only, schema

LENGTH = 40


def run(losses: list[float], epochs: list[float]) -> Engine:
    """A run of these losses, each step in the epoch that stands beside it; blocks lie across the ends of epochs."""
    script = Script(block=7).add(hello(), schema()).steps(losses)
    records: list[wire.Record] = []
    for record in script.records:
        if isinstance(record, wire.Steps):
            of = epochs[record.ordinal : record.ordinal + record.count]
            record = msgspec.structs.replace(record, epoch=wire.pack("f8", of))
        records.append(record)
    return diagnose(records)


def curve(orders: list[np.ndarray], noise: float = 0.02) -> list[float]:
    """Batches of different difficulty in these orders, one an epoch, on a slow descent, with some noise of its own."""
    hardness = 0.2 * np.random.default_rng(1).standard_normal(LENGTH)
    own = np.random.default_rng(2)
    steps = [hardness[batch] for order in orders for batch in order]
    descent = 2.0 - 0.5 * np.arange(len(steps)) / len(steps)
    return list(descent + steps + noise * own.standard_normal(len(steps)))


def numbered(count: int) -> list[float]:
    return [float(epoch) for epoch in range(count) for _ in range(LENGTH)]


SAME = [np.arange(LENGTH)] * 8
SHUFFLED = [np.random.default_rng(seed).permutation(LENGTH) for seed in range(40)]


@pytest.mark.parametrize("noise", [0.02, 0.1])
def test_the_same_order_in_each_epoch_is_a_note_from_its_second_epoch_on(noise: float) -> None:
    finding = only(run(curve(SAME, noise), numbered(8)), "data-order-repeats")
    assert (finding.severity, finding.status, finding.first_step) == ("info", "open", LENGTH)
    assert "set_epoch" in finding.claim.fix and "40 steps before" in finding.symptom
    assert all(item.value is not None and item.value > 0.5 for item in finding.evidence)


def test_an_order_drawn_anew_is_not_told() -> None:
    assert kinds(run(curve(SHUFFLED), numbered(40))) == []


def test_two_epochs_alike_are_not_told() -> None:
    assert kinds(run(curve([*SAME[:3], *SHUFFLED[:6]]), numbered(9))) == []


def test_it_is_over_when_later_epochs_are_shuffled() -> None:
    finding = only(run(curve([*SAME, *SHUFFLED[:8]]), numbered(16)), "data-order-repeats")
    assert finding.status == "resolved" and "another order from step 320" in finding.symptom


def test_a_level_that_swings_in_each_epoch_alike_is_no_order() -> None:
    swing = 0.5 * np.sin(2 * np.pi * np.arange(40 * LENGTH) / LENGTH)
    jumps = np.where(np.arange(40 * LENGTH) % LENGTH == 0, 3.0, 0.0)
    losses = np.array(curve(SHUFFLED)) + swing + jumps
    assert "data-order-repeats" not in kinds(run(list(losses), numbered(40)))


def test_a_curve_with_a_shorter_period_agrees_everywhere_and_is_no_order() -> None:
    wave = np.tile(np.tile([0.0, 0.3, -0.3, 0.1], LENGTH // 4), 8)
    assert kinds(run(list(2.0 + wave + 1e-3 * np.random.default_rng(3).standard_normal(8 * LENGTH)), numbered(8))) == []


@pytest.mark.parametrize("strange", [[0.5] * 320, [0.0] * 320, [float(step // 31) for step in range(320)]])
def test_epochs_that_are_fractions_or_one_or_too_short_are_not_compared(strange: list[float]) -> None:
    script = Script(block=320).add(hello(), schema()).steps(curve(SAME))
    records = [
        msgspec.structs.replace(record, epoch=wire.pack("f8", strange)) if isinstance(record, wire.Steps) else record
        for record in script.records
    ]
    assert kinds(diagnose(records)) == []


def test_losses_that_are_no_numbers_or_constant_are_passed_over() -> None:
    losses = [*curve(SAME), *[1.0] * (4 * LENGTH)]
    losses[100] = float("nan")
    assert "data-order-repeats" in kinds(run(losses, numbered(12)))
