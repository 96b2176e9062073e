"""Levels that the number of classes explains, and the sentences that use them."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn.functional import cross_entropy

from ntstop.diagnosis import curve_claims
from ntstop.diagnosis.detectors.chance import levels_of_k, near
from ntstop.diagnosis.detectors.plateau import Plateau
from ntstop.diagnosis.detectors.rate import RateWatch


@pytest.mark.parametrize("classes", [2, 10, 100, 1000])
def test_the_levels_are_those_of_torch(classes: int) -> None:
    levels = levels_of_k(math.log(classes) * 1.001)
    assert levels is not None and levels.classes == pytest.approx(classes, rel=0.01)
    logits, target = torch.zeros(1, classes), torch.tensor([0])
    exact = levels_of_k(float(cross_entropy(logits, target)))
    assert exact is not None
    assert near(exact.chance, float(cross_entropy(logits, target)), 1e-3)
    right = torch.zeros(1, classes)
    right[0, 0] = 1.0
    assert near(exact.softmax_twice, float(cross_entropy(right, target)), 1e-3)


@pytest.mark.parametrize("initial", [0.0, 0.9, -3.0, math.nan, math.inf, 30.0])
def test_a_loss_that_is_no_logarithm_of_a_number_of_classes_has_no_levels(initial: float) -> None:
    assert levels_of_k(initial) is None


def flat(level: float) -> Plateau:
    return Plateau(points=500, level=level, initial=2.305, move=0.0, low=-1e-4, high=1e-4, first_x=500, last_x=1000)


def test_a_plateau_at_the_floor_of_two_softmaxes_says_so() -> None:
    claim = curve_claims.plateau("loss", flat(1.475), RateWatch(), None)
    assert "softmax is applied twice" in claim.hypothesis and "logits" in claim.fix
    assert any("floor of two softmaxes for 10 classes: 1.461" in item.text for item in claim.evidence)
    assert "softmax" not in curve_claims.plateau("loss", flat(0.4), RateWatch(), None).hypothesis
