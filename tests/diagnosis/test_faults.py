"""Real small trainings, started with the probe and diagnosed by the command: eight with a bug, two without."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.faults import play
from tests.faults import expectation

FAULTS = (
    "bf16_weights_stuck",
    "exception",
    "graph_cut",
    "labels_all_ignored",
    "nan_in_input",
    "norm_of_zero",
    "scheduler_for_optimizer",
    "sign_flipped",
)
HEALTHY = ("healthy_amp_start", "healthy_gan")


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_training_with_a_bug_is_told_by_its_kind_first_and_by_its_place(name: str, tmp_path: Path) -> None:
    verdict = play(expectation.read(name), 0, tmp_path)
    said = [(finding["kind"], finding["where"], finding["first_step"]) for finding in verdict.findings]
    assert verdict.right_place, said


@pytest.mark.slow
@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_training_that_looks_dangerous_gets_no_warning(name: str, tmp_path: Path) -> None:
    verdict = play(expectation.read(name), 0, tmp_path)
    assert not verdict.flagged, [(finding["kind"], finding["symptom"]) for finding in verdict.findings]


def test_every_training_says_what_is_expected_of_it_and_there_are_enough_of_both_sorts() -> None:
    cases = expectation.every()
    assert sum(not case.healthy for case in cases) >= 40
    assert sum(case.healthy for case in cases) >= 15
