"""The order in which the data comes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ..catalogue import kind
from ..context import Context, StepBlock
from ..detectors.repeats import AGREE, CONTRAST, PAIRS, Agreement, RepeatDetector
from ..finding import Claim, Evidence, Finding
from .base import Rule, rule

ORDER = kind(
    "data-order-repeats",
    "pipeline",
    "update/memory/step profile",
    meaning="Each epoch brings the same batches in the same order: the sampler draws no new one. Some tasks mean it.",
    detector="The losses of an epoch, less their trend, against those of the epoch before step by step: they agree in "
    "place and at no other offset, several epochs in a row. Needs epochs of the same length, of 32 steps or more.",
    severity="info: a fixed order may be meant.",
)
SHOWN = 4
"""Agreements quoted."""


@rule
class OrderRule(Rule):
    """data-order-repeats. Over once as many epochs in a row have come in another order."""

    ALIKE = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._repeats = RepeatDetector()
        self._seen: list[Agreement] = []
        """Epochs in a row that repeat the one before; or, once that is told, that do not."""
        self._finding: Finding | None = None

    def steps(self, block: StepBlock) -> None:
        epochs = block.epochs
        if epochs is None or not block.losses:
            return
        name = "loss" if "loss" in block.losses else block.losses.names[0]
        losses = block.losses.filled(name)
        if losses is None or not (epochs == np.floor(epochs)).all():
            # Logs count epochs in fractions.
            self._repeats.restart()
            return
        cuts = [0, *(np.flatnonzero(np.diff(epochs)) + 1).tolist(), block.count]
        for start, end in pairwise(cuts):
            told = self._repeats.add(float(epochs[start]), block.x[start], block.x[end - 1], losses[start:end])
            if told is not None:
                self._judge(told)

    def resumed(self) -> None:
        self._repeats.restart()
        self._seen.clear()

    def _judge(self, told: Agreement) -> None:
        value = self.context.value
        repeats = told.correlation >= max(value(AGREE), told.elsewhere + CONTRAST)
        if repeats == (self._finding is None):
            self._seen.append(told)
        else:
            self._seen.clear()
        if len(self._seen) < value(PAIRS):
            return
        if self._finding is None:
            self._finding = self._open(self._seen)
        else:
            self._finding.resolve(told.first_x, "info")
            self._finding.claim.symptom += f"; another order from step {self._seen[0].first_x:,} on"
            self._finding = None
            self.context.book.changed()
        self._seen = []

    def _open(self, seen: list[Agreement]) -> Finding:
        first, last = seen[0], seen[-1]
        hello = self.context.hello
        ranks = (hello.world or 1) if hello is not None else 1
        told = (
            "`DistributedSampler.set_epoch` is not called" if ranks > 1 else "nothing shuffles, or with the same seed"
        )
        claim = Claim(
            symptom=(
                f"each epoch brings the same batches in the same order: the losses of step after step agree with those "
                f"{last.steps:,} steps before (correlation {last.correlation:.2f})"
            ),
            hypothesis=f"The sampler begins each epoch with the same order: {told}.",
            fix=(
                "Call `sampler.set_epoch(epoch)` before each epoch where there is a DistributedSampler, else give the "
                "DataLoader shuffle=True. Nothing, where a fixed order is meant."
            ),
            confidence=(
                "high that the order repeats: losses of batches drawn anew do not agree in place. Low that it harms."
            ),
            evidence=[
                Evidence(
                    f"epoch of {told.steps:,} steps from step {told.first_x:,}: correlation {told.correlation:.2f} "
                    f"with the one before, at other offsets at most {told.elsewhere:.2f}",
                    "loss",
                    told.first_x,
                    told.correlation,
                )
                for told in seen[-SHOWN:]
            ],
            open_questions=["Is a fixed order meant (a curriculum, a task of its own, shuffle=False)?"],
        )
        return self.context.open(
            ORDER.name,
            claim,
            severity="info",
            area=ORDER.area,
            failure_mode="pipeline",
            where="data order",
            first_x=first.first_x,
            last_x=last.last_x,
        )
