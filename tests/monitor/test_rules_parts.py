"""A loss that rises while a job logs its parts: whether the objective has changed, and by whose weight."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from ntstop.diagnosis.engine import Engine
from ntstop.diagnosis.finding import Finding
from ntstop.sources.logs.roles import is_part
from ntstop_probe import wire

from .records import Script, diagnose, hello, only, schema

STEPS, CHANGE, EVERY = 900, 360, 10


def run(
    recon: Callable[[int], float],
    kl: Callable[[int], float],
    weight: Callable[[int], float],
    *,
    names: tuple[str, str] = ("train/recon", "train/kl"),
    blur: float = 0.0,
) -> Engine:
    """A loss of `recon + weight * kl`; the two are logged at every tenth step, `blur`: of another batch."""
    rng = np.random.default_rng(3)
    script = Script(block=EVERY).add(hello(), schema())
    for start in range(0, STEPS, EVERY):
        noise = np.exp(rng.normal(0.0, 0.03, (EVERY, 2)))
        parts = [(recon(start + at) * noise[at, 0], kl(start + at) * noise[at, 1]) for at in range(EVERY)]
        script.steps([first + weight(start + at) * second for at, (first, second) in enumerate(parts)])
        logged = np.array(parts[0]) * np.exp(rng.normal(0.0, blur, 2) if blur else 0.0)
        values = dict(zip(names, logged.tolist(), strict=True))
        script.add(wire.Scalars(t=script.t, step=start, ordinal=start, values=values))
    return diagnose(script.records)


def grows(step: int) -> float:
    """A weight that is raised at every step from `CHANGE` on."""
    return 0.1 + 0.02 * max(0, step - CHANGE)


def recon(step: int) -> float:
    return 10 + 50 * math.exp(-step / 60) + 0.05 * max(0, step - CHANGE)


def collapsing(step: int) -> float:
    return 1.0 + 25 * math.exp(-max(0, step - CHANGE) / 150)


def text(finding: Finding) -> str:
    return " ".join(item.text for item in finding.evidence)


def test_a_weight_that_grows_is_named_before_the_rate() -> None:
    finding = only(run(recon, collapsing, grows), "divergence")
    assert finding.severity == "warning"
    assert "train/kl fell from" in finding.symptom and "train/recon rose from" in finding.symptom
    assert finding.claim.hypothesis.startswith(
        "The objective has changed since step 370: the weight of train/kl is 10."
    )
    assert "it was 0.1" in finding.claim.hypothesis
    assert "0.1 × train/kl + 1 × train/recon" in text(finding)


def test_a_loss_that_rises_by_its_weights_alone_is_a_note() -> None:
    finding = only(run(lambda _: 10.0, lambda step: 5 + 40 * math.exp(-step / 60), grows), "divergence")
    assert finding.severity == "info" and "the weight of train/kl" in finding.claim.hypothesis


def test_parts_that_rise_by_the_same_weights_leave_the_cause_to_the_rate() -> None:
    finding = only(run(recon, lambda step: 5 + 0.02 * max(0, step - CHANGE), lambda _: 0.1), "divergence")
    assert finding.claim.hypothesis.startswith("The learning rate is too high") and "as it was" in text(finding)


def test_parts_of_other_batches_that_go_apart_only_raise_the_question() -> None:
    hypothesis = only(run(recon, collapsing, grows, blur=0.1), "divergence").claim.hypothesis
    assert hypothesis.startswith("Its parts go apart (train/kl fell") and "the objective may have changed" in hypothesis
    assert "too high" in hypothesis


def test_the_loss_itself_under_another_name_and_what_is_no_part_say_nothing() -> None:
    claim = only(run(recon, collapsing, grows, names=("train/speed", "train/memory")), "divergence").claim
    assert claim.hypothesis.startswith("The learning rate is too high")
    whole = run(
        lambda step: 10 + 50 * math.exp(-step / 60) + 0.05 * max(0, step - CHANGE), lambda _: 1.0, lambda _: 0.0
    )
    assert "as it was" not in text(only(whole, "divergence"))


@pytest.mark.parametrize("name", ["train/recon", "kl", "losses/commitment", "train/box_loss", "loss/l1"])
def test_terms_of_a_loss_are_known_by_their_names(name: str) -> None:
    assert is_part(name)


@pytest.mark.parametrize("name", ["val/kl", "kl_weight", "train/loss", "train/acc", "lr", "reward", "kl_coef"])
def test_what_is_no_term_of_the_training_loss(name: str) -> None:
    assert not is_part(name)
