"""A validation loss that jumps beside a smooth training loss: the path of evaluation, and quiet on what is usual."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from ntstop.diagnosis.engine import Engine
from ntstop_probe import wire

from .records import Script, diagnose, hello, kinds, only, schema, weighty, wobble

STEPS = 50
"""Steps of an epoch; it is evaluated behind the last."""


def run(val: Sequence[float], *, train: Sequence[float] | None = None, last: int = 64) -> Engine:
    """Epochs of batches of 64 samples, the last of them of `last`; each is evaluated."""
    script, seen = Script(block=STEPS).add(hello(), schema()), 0
    levels = [0.15 + 2.0 * math.exp(-number / 5) for number in range(len(val))] if train is None else train
    for level, value in zip(levels, val, strict=True):
        script.steps([level * (1 + 0.03 * wobble(step)) for step in range(STEPS)])
        counts = np.cumsum([64] * (STEPS - 1) + [last]) + seen
        seen = int(counts[-1])
        at = next(
            index for index in reversed(range(len(script.records))) if isinstance(script.records[index], wire.Steps)
        )
        samples = wire.pack("i8", counts.tolist())
        script.records[at] = msgspec.structs.replace(script.records[at], samples=samples)
        values = {"val/loss": value}
        script.add(wire.Scalars(t=script.t, step=script.ordinal, ordinal=script.ordinal, values=values))
    return diagnose(script.records)


def noisy(level: Sequence[float], sigma: float, seed: int = 0) -> list[float]:
    return (np.array(level) * np.exp(np.random.default_rng(seed).normal(0.0, sigma, len(level)))).tolist()


def test_validation_that_jumps_by_factors_beside_a_training_that_falls_is_a_warning_and_no_overfitting() -> None:
    finding = only(run(noisy([1.3] * 24, 0.5)), "parity-mismatch")
    assert (finding.severity, finding.status, finding.where) == ("warning", "open", "val/loss")
    assert "by a factor of 1." in finding.symptom and "No overfitting" in finding.claim.hypothesis
    assert "samples, " not in " ".join(item.text for item in finding.evidence)
    assert weighty(run(noisy([1.3] * 24, 0.5))) == ["parity-mismatch"]


def test_a_last_batch_of_one_sample_before_each_evaluation_is_named() -> None:
    claim = only(run(noisy([1.3] * 24, 0.5), last=1), "parity-mismatch").claim
    assert "a last batch of 1" in claim.hypothesis
    assert any("had 1 of 64 samples, 16 times of 16" in item.text for item in claim.evidence)


@pytest.mark.parametrize("seed", range(5))
def test_few_validation_samples_with_moderate_noise_are_no_news(seed: int) -> None:
    assert "parity-mismatch" not in kinds(run(noisy([1.3] * 40, 0.15, seed)))


def test_what_jumps_and_comes_down_all_the_same_is_a_note_that_ends() -> None:
    falling = [0.2 + 3.0 * math.exp(-number / 6) for number in range(24)]
    engine = run(noisy(falling, 0.5))
    assert weighty(engine) == [] and only(engine, "parity-mismatch").severity == "info"
    calm = noisy([1.3] * 24, 0.5) + [1.2 + 0.01 * wobble(number) for number in range(16)]
    finding = only(run(calm), "parity-mismatch")
    assert finding.status == "resolved" and "no longer by step" in finding.symptom


def test_a_training_that_jumps_as_well_and_a_task_that_is_solved_are_no_mismatch() -> None:
    assert "parity-mismatch" not in kinds(run(noisy([1.3] * 24, 0.5), train=noisy([0.9] * 24, 0.5)))
    solved = [2.0, 1.0, 0.3, *[0.01] * 21]
    assert "parity-mismatch" not in kinds(run(noisy(solved, 0.5), train=solved))
