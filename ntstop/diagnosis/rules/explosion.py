"""Gradients that explode: the global norm far above its level, reading after reading."""

from __future__ import annotations

from typing import Final

import numpy as np

from ..catalogue import kind
from ..context import Context, LayerSample, StepBlock
from ..detectors.gradflow import numbers
from ..detectors.growth import BACK, CALM, ROW, Growth, GrowthWatch
from ..detectors.schedule import known
from ..evidence import trajectory
from ..finding import Claim, Evidence, Finding, Severity
from ..thresholds import threshold
from .base import Rule, rule

EXPLODING = kind(
    "exploding-gradients",
    "optimization",
    "update/memory/step profile",
    meaning="The gradient norm has left its level by an order of magnitude and more, and stays there.",
    detector=f"The global norm before clipping against its own slow level, {ROW} readings in a row; over when {CALM} "
    f"in a row are under {BACK:g} times the old level.",
    severity="info from the first bound on, warning from the second.",
)
FACTOR = threshold(
    "exploding-gradients.factor",
    10.0,
    low=2.0,
    meaning="Times its usual level that the gradient norm must come to. Raised, smaller bursts are not told.",
    source="no healthy one of 156 development curves (AlgoPerf) has 3 readings in a row over 10 times its level",
)
WARNING = threshold(
    "exploding-gradients.warning-factor",
    30.0,
    low=2.0,
    meaning="Times its usual level at which the gradient norm is a warning. Raised, more bursts are notes only.",
    source="healthy runs of other kinds (GANs, reinforcement learning) come to 10 times and go on",
)
NAMED: Final = 3


@rule
class ExplodingRule(Rule):
    """exploding-gradients."""

    ALIKE = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._warning = context.value(WARNING)
        self._watch = GrowthWatch(context.value(FACTOR))
        self._finding: Finding | None = None
        self._sample: LayerSample | None = None
        """The newest sample with gradients: it says in which layers."""

    def resumed(self) -> None:
        self._watch = GrowthWatch(self.context.value(FACTOR))
        self._finding = None

    def layers(self, sample: LayerSample) -> None:
        if "grad_norm" in sample.columns:
            self._sample = sample

    def steps(self, block: StepBlock) -> None:
        x, norms = block.x, block.grad_norms
        if norms is None:
            if block.grad_norm is None:
                return
            x, norms = known(block.grad_norm, x)
        good = np.isfinite(norms) & (norms > 0.0)
        if not good.all():
            x, norms = [at for at, keep in zip(x, good.tolist(), strict=True) if keep], norms[good]
        if self._watch.add(x, norms):
            self._tell()

    def _tell(self) -> None:
        growth, finding = self._watch.growth, self._finding
        assert growth is not None
        severity: Severity = "warning" if growth.peak >= self._warning * growth.level else "info"
        if finding is None:
            finding = self._finding = self.context.open(
                EXPLODING.name,
                _claim(growth, self._sample),
                severity=severity,
                area=EXPLODING.area,
                failure_mode="optimization",
                where="grad_norm",
                first_x=growth.first_x,
                last_x=growth.last_x,
            )
        elif severity == "warning" and finding.severity == "info":
            finding.severity = severity
        finding.last_step = max(finding.last_step, growth.last_x)
        finding.claim.symptom = _symptom(growth)
        if growth.over:
            finding.resolve(growth.last_x, "info")
            self._watch.settle()
            self._finding = None
        self.context.book.changed()


def _symptom(growth: Growth) -> str:
    return (
        f"the gradient norm rose from {growth.level:.3g} to {growth.peak:.3g} (×{growth.peak / growth.level:.0f}) by "
        f"step {growth.peak_x:,}, and stayed high for {len(growth.readings)} readings and more"
    )


def _claim(growth: Growth, sample: LayerSample | None) -> Claim:
    return Claim(
        symptom=_symptom(growth),
        hypothesis="The curvature along the path has grown (a rate near the edge of stability, a recurrence or a depth "
        "that multiplies), or the data of these steps are of another kind.",
        fix=f"Clip the global norm at {2 * growth.level:.2g}, twice its level before; if it happens again, lower "
        "the rate to a third.",
        confidence="high that the norm rose: measured before clipping. Low on the cause: the batches of these steps "
        "and the layers would tell.",
        evidence=[
            *trajectory("grad_norm", growth.before, growth.readings[0], growth.readings[1:]),
            Evidence(f"its level before: {growth.level:.3g}", "grad_norm", growth.first_x, growth.level),
            *_largest(growth, sample),
        ],
        open_questions=[] if sample is not None and sample.x >= growth.first_x else ["Which layers grew?"],
    )


def _largest(growth: Growth, sample: LayerSample | None) -> list[Evidence]:
    """The layers with the largest gradients since it began."""
    if sample is None or sample.x < growth.first_x:
        return []
    norms = numbers(sample.columns["grad_norm"], len(sample.schema.names))
    known = np.flatnonzero(np.isfinite(norms))
    largest = known[np.argsort(norms[known])[::-1]][:NAMED]
    return [
        Evidence(f"gradient {norms[index]:.3g} in {sample.schema.names[index]} at step {sample.x:,}", "grad_norm",
                 sample.x, float(norms[index]))
        for index in largest.tolist()
    ]  # fmt: skip
