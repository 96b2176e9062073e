"""A loss that swings more and more, from records: the card, its end, and what is told with it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ntstop_probe import wire

from .records import Script, diagnose, hello, kinds, only, schema
from .test_detectors_oscillation import growth, noise, wave

PERIOD = 9.0
LEVEL = 2.0 + 6.0 * np.exp(-np.arange(1200) / 100)
SWINGING = (LEVEL * np.exp(growth(PERIOD) * wave(PERIOD) + noise(0.02))).tolist()
TOLD = 900
"""A step at which it has been told and nothing else has."""


def start() -> Script:
    return Script().add(hello(total_steps=5_000), schema())


def test_swings_that_grow_are_a_warning_that_says_how_wide_and_how_long() -> None:
    engine = diagnose(start().steps(SWINGING[:TOLD]).records)
    finding = only(engine, "divergence")
    assert (finding.severity, finding.status, finding.where) == ("warning", "open", "loss")
    assert "swings more and more about its level" in finding.symptom and "about 9 steps" in finding.symptom
    assert finding.first_step < finding.last_step < TOLD and "half of its 0.001" in finding.claim.fix
    before, now = (item.value for item in finding.evidence[2:4])
    assert before is not None and now is not None and 0.2 < now < math.log(3) and before < now / 1.5
    assert finding.evidence[-1].series == "lr"
    assert all(item.step is not None and item.step < TOLD for item in finding.evidence)


def test_it_is_over_when_the_swings_have_calmed() -> None:
    calm = (2.0 * np.exp(noise(0.02, 1))).tolist()
    finding = only(diagnose(start().steps(SWINGING[:TOLD]).steps(calm[:200]).records), "divergence")
    assert (finding.status, finding.severity) == ("resolved", "info") and "it has calmed by step" in finding.symptom


def test_what_it_ends_in_is_told_on_one_card() -> None:
    lost = [2.0 * 1.3**step for step in range(40)]
    finding = only(diagnose(start().steps(SWINGING[:TOLD]).steps(lost).records), "divergence")
    assert finding.severity == "critical" and "swings" not in finding.symptom
    assert [one.severity for one in finding.explained if "swings" in one.symptom] == ["info"]


def test_losses_that_swing_against_each_other_are_a_note() -> None:
    second = [9.0 - loss for loss in SWINGING[:TOLD]]
    finding = only(diagnose(start().steps(SWINGING[:TOLD], second=second).records), "divergence")
    assert finding.severity == "info"


def test_another_attempt_is_measured_anew() -> None:
    script = start().steps(SWINGING[:TOLD]).add(hello(attempt=1))
    engine = diagnose(script.steps((2.0 * np.exp(noise(0.02))).tolist()[:100]).records)
    assert [finding.status for finding in engine.findings if finding.kind == "divergence"] == ["resolved"]


def test_numbers_that_are_missing_or_not_finite_are_left_out() -> None:
    losses: list[float | None] = [None if step % 50 == 3 else loss for step, loss in enumerate(SWINGING[:TOLD])]
    assert "divergence" in kinds(diagnose(start().steps(losses, rate=None).records))
    losses[100] = math.nan
    assert "nonfinite-loss" in kinds(diagnose(start().steps(losses).records))


@pytest.mark.parametrize("block", [1, 7, 256])
def test_the_size_of_the_blocks_changes_nothing(block: int) -> None:
    script = Script(block=block).add(hello(total_steps=5_000), schema())
    records: list[wire.Record] = script.steps([*SWINGING[:TOLD], *SWINGING[:300]]).records
    finding = only(diagnose(records), "divergence")
    other = only(diagnose(start().steps([*SWINGING[:TOLD], *SWINGING[:300]]).records), "divergence")
    assert (finding.id, finding.claim, finding.last_step) == (other.id, other.claim, other.last_step)
