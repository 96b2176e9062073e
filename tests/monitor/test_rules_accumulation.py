"""Gradients that pile up, that are thrown away within a step, or that come from windows of unequal length."""

from __future__ import annotations

import pytest

from .records import Script, descent, diagnose, hello, kinds, manifest, only, schema, weighty, wobble


def start(optimizer: str = "AdamW") -> Script:
    return Script().add(hello(of=manifest(optimizers=[{"class": optimizer}])), schema())


GROWING = [0.9 * (step + 1) ** 0.8 for step in range(60)]


def test_without_a_zero_grad_the_growing_norm_is_the_proof() -> None:
    script = start().steps(descent(60), grad_norm=GROWING, micro=1, optimizers=1, zero_grads=0)
    finding = only(diagnose(script.records), "gradient-accumulating")
    assert (finding.severity, finding.where, finding.first_step) == ("critical", "zero_grad", 0)
    assert "grew from 0.9 to" in finding.symptom and finding.claim.confidence.startswith("high")


def test_gradients_that_are_cleared_by_hand_are_quiet() -> None:
    norms = [1.0 + 0.3 * wobble(step) for step in range(400)]
    script = start().steps(descent(400), grad_norm=norms, micro=1, optimizers=1, zero_grads=0)
    assert "gradient-accumulating" not in kinds(diagnose(script.records))


def test_a_norm_that_only_grows_at_first_is_no_proof() -> None:
    norms = [min(4.0, 0.9 * (step + 1) ** 0.8) for step in range(120)]
    script = start().steps(descent(120), grad_norm=norms, micro=1, optimizers=1, zero_grads=0)
    assert only(diagnose(script.records), "gradient-accumulating").status == "resolved"


def test_without_any_norm_it_is_a_question() -> None:
    script = start().steps(descent(400), micro=1, optimizers=1, zero_grads=0)
    finding = only(diagnose(script.records), "gradient-accumulating")
    assert finding.severity == "info" and finding.claim.open_questions


def test_a_zero_grad_that_comes_late_ends_it() -> None:
    script = start().steps(descent(60), grad_norm=GROWING, micro=1, optimizers=1, zero_grads=0)
    script.steps(descent(60), micro=1, optimizers=1, zero_grads=1)
    assert only(diagnose(script.records), "gradient-accumulating").status == "resolved"


def test_a_zero_grad_in_each_micro_batch_is_named_with_their_number() -> None:
    script = start().steps(descent(60), micro=4, optimizers=1, zero_grads=4)
    finding = only(diagnose(script.records), "gradient-accumulating")
    assert (finding.severity, finding.where) == ("warning", "micro-batches")
    assert "each of the 4 micro-batches" in finding.symptom


@pytest.mark.parametrize(
    ("micro", "optimizers", "zero_grads", "optimizer"),
    [(4, 1, 1, "AdamW"), (1, 1, 2, "AdamW"), (2, 1, 2, "SGD"), (3, 2, 4, "Adam"), (20, 1, 20, "LBFGS")],
    ids=["accumulation", "model and optimizer", "two losses", "GAN", "closure"],
)
def test_loops_that_only_look_like_it_are_quiet(micro: int, optimizers: int, zero_grads: int, optimizer: str) -> None:
    script = start(optimizer).steps(descent(200), micro=micro, optimizers=optimizers, zero_grads=zero_grads)
    assert "gradient-accumulating" not in kinds(diagnose(script.records))


def test_leftovers_that_spill_into_the_next_epoch_are_counted() -> None:
    micro = [6 if step % 5 == 0 and step else 4 for step in range(300)]
    finding = only(
        diagnose(start().steps(descent(300), micro=micro, optimizers=1, zero_grads=1).records), "gradient-accumulating"
    )
    assert (finding.severity, finding.where, finding.first_step) == ("warning", "window", 5)
    assert "spill" in finding.claim.hypothesis


def test_one_short_window_in_a_long_epoch_is_only_noted() -> None:
    micro = [2 if step % 100 == 99 else 4 for step in range(600)]
    engine = diagnose(start().steps(descent(600), micro=micro, optimizers=1, zero_grads=1).records)
    assert only(engine, "gradient-accumulating").severity == "info" and weighty(engine) == []
