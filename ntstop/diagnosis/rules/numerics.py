"""Numbers that stopped being numbers: the loss first, or the gradient first."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ntstop_probe import wire

from .. import nonfinite_claims as claims
from ..catalogue import kind
from ..context import Context, LayerSample, StepBlock
from ..detectors.badlayers import BadLayers, bad_layers, nonfinite, nothing_but_zeros
from ..detectors.foregoing import Foregoing
from ..detectors.nonfinite import CALM, CONTEXT, Episode, NonfiniteDetector
from ..evidence import point
from ..finding import Claim, Finding
from .base import Rule, rule

NONFINITE_LOSS = kind(
    "nonfinite-loss",
    "numerics",
    "precision/batching/recompute/compilation",
    meaning="The loss is NaN or Inf. Once it is in the weights, every later step is lost.",
    detector="The loss at the root of every backward; the layers of the same step say where, and whether weights or "
    "gradients were hit.",
    severity=f"critical; warning once {CALM} finite losses in a row have followed.",
)
NONFINITE_GRAD = kind(
    "nonfinite-grad",
    "numerics",
    "precision/batching/recompute/compilation",
    meaning="The gradient is NaN or Inf while the loss of the same step is finite: backward made it. Steps that loss "
    "scaling skipped are none.",
    detector="The gradient norm before clipping, the gradients of the sampled layers, and weights that are nonfinite "
    "after a step whose loss was finite.",
    severity=f"critical; warning once {CALM} finite norms in a row have followed.",
)
LOOKS: Final = 4
"""Newest samples of layers that are remembered."""


@dataclass(frozen=True, slots=True)
class _Look:
    """What one sample of the layers says, for the step in which a loss breaks."""

    ordinal: int
    bad: BadLayers | None
    zeros: bool


@rule
class NonfiniteRule(Rule):
    """nonfinite-loss, one for each root of the loss, and nonfinite-grad where the loss of that step was finite.

    A step that loss scaling skipped may have any gradient: that is how the scale finds its level.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._scaled = False
        """Loss scaling is on: a nonfinite gradient is how it works."""
        self._scale: float | None = None
        self._epoch: tuple[int, int] | None = None
        """The present epoch, and the ordinal of its first step."""
        self._checkpoint: tuple[int, str] | None = None
        self._clipped = False
        self._reset()

    def _reset(self) -> None:
        self._losses: dict[str, NonfiniteDetector] = {}
        self._calm: list[StepBlock] = []
        """The newest blocks of finite losses that no detector has seen, `CONTEXT` points at least."""
        self._grads = NonfiniteDetector()
        self._loss_findings: dict[str, Finding] = {}
        self._grad_finding: Finding | None = None
        self._bad: BadLayers | None = None
        """The first bad sample that no finding has used yet."""
        self._looks: deque[_Look] = deque(maxlen=LOOKS)
        self._foregoing = Foregoing()
        self._first_layer = ""
        self._arounds: dict[str, claims.Surroundings] = {}

    def event(self, event: wire.Event) -> None:
        if event.kind == "checkpoint" and not self._loss_findings and self._grad_finding is None:
            at = self.context.x_of(event.ordinal) if event.ordinal is not None else self.context.last_x
            self._checkpoint = (at if event.step is None else event.step, event.text)

    def layers(self, sample: LayerSample) -> None:
        bad = bad_layers(sample.ordinal, sample.x, sample.schema.names, sample.columns)
        self._looks.append(_Look(sample.ordinal, bad, nothing_but_zeros(sample.columns)))
        if bad is None:
            self._foregoing.add(sample.ordinal, sample.x, sample.schema.names, sample.columns.get("grad_norm"))
            return
        finding = next(iter(self._loss_findings.values()), None) or self._grad_finding
        if finding is not None:
            self._name_layers(finding, bad)
        elif self._bad is None and not self._scaled:
            self._bad = bad
            if bad.ordinal <= self.context.last_ordinal:
                # Its step has been seen already, with a finite loss: no finding was opened.
                self._judge_layers()

    def steps(self, block: StepBlock) -> None:
        self._scaled = self._scaled or block.scaled
        self._clipped = self._clipped or block.clip is not None
        self._follow(block)
        # The gradient first: of one block, it may be the cause of a loss some steps later.
        self._gradient(block, _first_nonfinite(block))
        if block.losses.finite and all(detector.episode is None for detector in self._losses.values()):
            self._keep_calm(block)
        else:
            self._judge_losses(block)
        if self._bad is not None and self._bad.ordinal <= self.context.last_ordinal:
            self._judge_layers()

    def _follow(self, block: StepBlock) -> None:
        """Where in the epoch it is, and the loss scale."""
        epochs = block.epoch
        if (
            epochs is not None
            and (last := epochs[-1]) is not None
            and math.isfinite(last)
            and (not self._epoch or self._epoch[0] != last)
        ):
            self._epoch = (int(last), block.ordinal + epochs.index(last))
        if block.scaled and (scales := block.loss_scale) is not None:
            self._scale = next((scale for scale in reversed(scales) if scale is not None), self._scale)

    def _around(self, ordinal: int) -> claims.Surroundings:
        """What is known of a step beside its numbers."""
        hello, epoch = self.context.hello, self._epoch
        return claims.Surroundings(
            precision=hello.manifest.precision if hello is not None else None,
            loss_scale=self._scale,
            batch=(epoch[0], ordinal - epoch[1]) if epoch is not None and ordinal >= epoch[1] else None,
            checkpoint=self._checkpoint,
            zero_gradient=any(look.ordinal == ordinal and look.zeros for look in self._looks),
            clipped=self._clipped,
            before=self._foregoing.evidence(ordinal),
            from_log=self.context.is_log,
        )

    def _keep_calm(self, block: StepBlock) -> None:
        """The usual block: only its last points matter, as what came before; and only once there is something."""
        if self._calm and self._calm[-1].losses.names != block.losses.names:
            self._feed_calm()
        self._calm.append(block)
        while sum(known.count for known in self._calm) - self._calm[0].count >= CONTEXT:
            del self._calm[0]

    def _feed_calm(self) -> None:
        for block in self._calm:
            for name, losses in block.losses.items():
                _feed_tail(self._losses.setdefault(name, NonfiniteDetector()), block.x, losses)
        self._calm.clear()

    def _judge_losses(self, block: StepBlock) -> None:
        self._feed_calm()
        for name, losses in block.losses.items():
            detector = self._losses.setdefault(name, NonfiniteDetector())
            if detector.episode is None and all(map(_finite_or_none, losses)):
                _feed_tail(detector, block.x, losses)
                continue
            for index, loss in enumerate(losses):
                if loss is None:
                    continue
                episode = detector.add(block.x[index], loss)
                if episode is not None:
                    self._loss(name, episode, block.x[index], block.ordinal + index)

    def _judge_layers(self) -> None:
        """The step of the bad sample is known: it names the layers of a finding, or is one itself."""
        bad = self._bad
        if bad is None:
            return
        if not self._loss_findings and self._grad_finding is None and not self._scaled:
            self._open_grad(bad.x, None, [], bad.ordinal)
        self._bad = None
        for finding in (*self._loss_findings.values(), self._grad_finding):
            if finding is not None:
                self._name_layers(finding, bad)

    def resumed(self) -> None:
        for finding in (*self._loss_findings.values(), self._grad_finding):
            if finding is not None:
                finding.resolve(self.context.last_x, "warning")
        self.context.book.changed()
        self._reset()

    def _loss(self, name: str, episode: Episode, x: int, ordinal: int) -> None:
        context = self.context
        finding = self._loss_findings.get(name)
        if finding is None:
            finding = self._open_loss(name, episode, ordinal)
        elif episode.after[-1][0] == x:
            finding.evidence.append(point(name, x, episode.after[-1][1], "after"))
        finding.last_step = max(finding.last_step, episode.last_x)
        finding.claim.symptom = claims.loss_symptom(name, episode, self._first_layer)
        if episode.over:
            finding.resolve(episode.last_x, "warning")
            finding.claim.symptom += f"; finite again for {CALM} steps"
            claims.passed(finding.claim, episode, self._arounds.get(name))
            del self._loss_findings[name]
            self._first_layer = ""
        context.book.changed()

    def _open_loss(self, name: str, episode: Episode, ordinal: int) -> Finding:
        self._judge_weights(episode, ordinal)
        around = self._arounds[name] = self._around(ordinal)
        claim = claims.loss_claim(name, episode, self._grad_finding, around)
        finding = self._open("nonfinite-loss", claim, name, episode.first_x)
        self._loss_findings[name] = finding
        return finding

    def _judge_weights(self, episode: Episode, ordinal: int) -> None:
        """Were the weights nonfinite before the update of this very step? Then the step before it did that."""
        bad = next((look.bad for look in self._looks if look.ordinal == ordinal and look.bad is not None), None)
        if bad is None or not bad.poisoned or self._grad_finding is not None or not episode.before:
            return
        before_x, _ = episode.before[-1]
        claim = claims.written_claim(before_x, episode.before[-1], bad, self._around(ordinal - 1))
        where = bad.poisoned[0] if len(bad.poisoned) < bad.of else "grad_norm"
        self._grad_finding = self._open("nonfinite-grad", claim, where, before_x)

    def _open(self, name: str, claim: Claim, where: str, first_x: int) -> Finding:
        area = NONFINITE_LOSS.area if name == NONFINITE_LOSS.name else NONFINITE_GRAD.area
        return self.context.open(
            name,
            claim,
            severity="critical",
            area=area,
            failure_mode="optimization",
            where=where,
            first_x=first_x,
        )

    def _gradient(self, block: StepBlock, bad_loss: int) -> None:
        """`bad_loss`: index of the first step of the block whose loss is not finite, `count` when all are."""
        norms = block.grad_norm
        if norms is None:
            return
        if self._grads.episode is None and block.grad_norm_finite:
            _feed_tail(self._grads, block.x, norms)
            return
        for index, norm in enumerate(norms):
            if norm is None or (block.skipped is not None and block.skipped[index] and not math.isfinite(norm)):
                continue
            before = self._grads.episode
            episode = self._grads.add(block.x[index], norm)
            if episode is None:
                continue
            if before is None and index < bad_loss and not self._loss_findings:
                self._open_grad(episode.first_x, episode.first, episode.before, block.ordinal + index)
            finding = self._grad_finding
            if finding is None:
                continue
            finding.last_step = max(finding.last_step, episode.last_x)
            if episode.over:
                finding.resolve(episode.last_x, "warning")
                finding.claim.symptom += f"; finite again for {CALM} steps"
                self._grad_finding = None
            self.context.book.changed()

    def _open_grad(self, first_x: int, value: float | None, before: list[tuple[int, float]], ordinal: int) -> None:
        """`value` None: the layers show it, the norm was not measured."""
        bad = self._bad if self._bad is not None and self._bad.x <= first_x else None
        claim = claims.grad_claim(first_x, value, before, bad, self._around(ordinal))
        where = bad.names[0] if bad is not None and not bad.everywhere else "grad_norm"
        self._grad_finding = self._open("nonfinite-grad", claim, where, first_x)

    def _name_layers(self, finding: Finding, bad: BadLayers) -> None:
        """Say which layer was first; the earliest sample is the one that tells."""
        known = [item for item in finding.evidence if item.series in ("grad_nonfinite", "param_norm")]
        if known or bad.x < finding.first_step - 1:
            return
        finding.evidence.append(bad.evidence())
        if bad.x > finding.first_step:
            finding.evidence[-1].text += f" ({bad.x - finding.first_step:,} steps after the first nonfinite number)"
        elif finding.kind == "nonfinite-loss":
            self._first_layer = _where(bad)
            head, separator, rest = finding.claim.symptom.partition("; ")
            finding.claim.symptom = head + self._first_layer + separator + rest
        self.context.book.changed()


def _where(bad: BadLayers) -> str:
    """The layer of a loss that broke, as its symptom has it: none where all were hit."""
    if bad.poisoned:
        return (
            f"; weights of all {bad.of} layers hit" if bad.poisoned_everywhere else f"; first layer {bad.poisoned[0]}"
        )
    return f"; gradients of all {bad.of} layers hit" if bad.everywhere else f"; first layer {bad.names[0]}"


def _first_nonfinite(block: StepBlock) -> int:
    if block.losses.finite:
        return block.count
    bad = (index for losses in block.losses.values() for index, loss in enumerate(losses) if nonfinite(loss))
    return min(bad, default=block.count)


def _finite_or_none(value: float | None) -> bool:
    return value is None or math.isfinite(value)


def _feed_tail(detector: NonfiniteDetector, x: Sequence[int], values: list[float | None]) -> None:
    for index in range(max(0, len(values) - 4), len(values)):
        value = values[index]
        if value is not None:
            detector.add(x[index], value)
