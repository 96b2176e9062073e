"""Validation beside training, from records: overfit, leakage, early stopping; and quiet on noise."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from ntstop.diagnosis.engine import Engine
from ntstop_probe import wire

from .records import Script, descent, diagnose, hello, kinds, only, schema, weighty, wobble


def evaluated(
    train: Callable[[int], float], val: Callable[[int], float], count: int = 30, *, checkpoints: bool = False
) -> Engine:
    """Evaluation number `i` comes after 50 steps at the training loss `train(i)`."""
    script = Script().add(hello(), schema())
    for number in range(count):
        script.add(wire.Scalars(t=script.t, step=50 * number, ordinal=50 * number, values={"val/loss": val(number)}))
        script.steps([train(number) * (1 + 0.02 * wobble(step)) for step in range(50)])
        if checkpoints and number % 4 == 3:
            script.event("checkpoint", f"model-{number}.pt")
    return diagnose(script.records)


def falling(number: int) -> float:
    return 0.2 + 2.0 * math.exp(-number / 8)


def turning(number: int) -> float:
    """At its best at number 8, then it rises."""
    return 1.0 + 0.01 * (number - 8) ** 2 + 0.01 * wobble(number)


def test_overfit_names_the_best_step_and_the_nearest_checkpoint() -> None:
    finding = only(evaluated(falling, turning, checkpoints=True), "overfit")
    assert (finding.severity, finding.failure_mode, finding.where) == ("warning", "generalization", "val/loss")
    assert abs(finding.first_step - 400) <= 100
    assert f"at step {finding.first_step:,}" in finding.symptom
    assert "checkpoint of step 4" in finding.claim.fix and "model-7.pt" in " ".join(e.text for e in finding.evidence)
    assert [item.text.split(":")[0] for item in finding.evidence[:3]] == ["first", "best", "now"]


def test_rise_from_the_first_evaluation_on_is_a_suspicion_of_the_data() -> None:
    finding = only(evaluated(falling, lambda number: 2.2 + 0.1 * number + 0.02 * wobble(number)), "leakage-suspect")
    assert finding.severity == "warning" and finding.first_step == 0 and finding.claim.confidence.startswith("medium")


def test_a_rise_of_data_that_were_seen_several_times_before_the_first_evaluation_is_memorizing() -> None:
    script = Script().add(hello(), schema())
    for number in range(30):
        script.steps([falling(number) * (1 + 0.02 * wobble(step)) for step in range(50)], epoch=4 * number + 3)
        values = {"val/loss": 2.2 + 0.1 * number + 0.02 * wobble(number)}
        script.add(wire.Scalars(t=script.t, step=50 * number + 49, ordinal=50 * number + 49, values=values))
    assert weighty(diagnose(script.records)) == ["overfit"]


def test_patience_without_a_falling_training_loss_is_a_note() -> None:
    finding = only(evaluated(lambda number: 1.0, turning, 28), "early-stop")
    assert finding.severity == "info" and "evaluations since its best" in finding.symptom


def test_a_best_at_the_beginning_that_training_has_not_passed_either_is_a_warning() -> None:
    def early(number: int) -> float:
        return 1.0 + 0.04 * (number > 3) + 0.002 * wobble(number)

    assert "early-stop" not in weighty(evaluated(lambda number: 1.0, early, 20))
    finding = only(evaluated(lambda number: 1.0, early, 30), "early-stop")
    assert finding.severity == "warning" and "training has not come down" in finding.symptom
    assert "early-stop" not in weighty(evaluated(falling, early, 30))


@pytest.mark.parametrize("noise", [0.005, 0.05, 0.3])
@pytest.mark.parametrize("level", [0.0, 1.0, -3.0], ids=["falling", "flat", "below zero"])
def test_noise_is_no_rise(noise: float, level: float) -> None:
    def val(number: int) -> float:
        base = falling(number) if level == 0.0 else level
        return base + abs(base) * noise * wobble(7 * number)

    assert kinds(evaluated(falling, val, 120), lambda finding: finding.kind != "plateau") == []


def test_a_loss_that_finds_a_new_best_resolves_it() -> None:
    def val(number: int) -> float:
        return turning(number) if number < 22 else 0.9 - 0.01 * number

    finding = only(evaluated(falling, val, 40), "overfit")
    assert (finding.status, finding.severity) == ("resolved", "info")


def test_a_single_high_evaluation_is_nothing() -> None:
    assert kinds(evaluated(falling, lambda number: 5.0 if number in (12, 19) else falling(number) + 0.1)) == []


def test_validation_far_below_training_is_not_believed() -> None:
    finding = only(evaluated(falling, lambda number: 0.1 * falling(number)), "leakage-suspect")
    assert "from the first evaluation on" in finding.symptom
    assert weighty(evaluated(falling, lambda number: 0.6 * falling(number))) == []


def test_perfect_accuracy_of_a_model_that_has_not_learned_is_not_believed() -> None:
    script = Script().add(hello(), schema())
    for number in range(20):
        script.steps(descent(50, start=2.3, end=2.0))
        script.add(wire.Scalars(t=script.t, step=50 * number, ordinal=50 * number, values={"val/accuracy": 1.0}))
    assert only(diagnose(script.records), "leakage-suspect").where == "val/accuracy"


def test_ten_thousand_evaluations_are_kept_in_bounds_with_the_best_one() -> None:
    engine = Engine()
    engine.observe(1, hello())
    for number in range(5000):
        value = 1.0 - number / 1000 if number < 500 else 0.5 + (number - 500) / 5000
        values = {"val/loss": value + 0.001 * wobble(number), "train/loss": 2.0 / (1 + number)}
        engine.observe(1, wire.Scalars(t=float(number), step=number, ordinal=number, values=values))
    assert abs(only(engine, "overfit").first_step - 500) <= 10
