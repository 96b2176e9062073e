"""Numbers that stopped being numbers: the loss first, or the gradient first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..context import Context, LayerSample, StepBlock
from ..detectors.nonfinite import CALM, CONTEXT, Episode, NonfiniteDetector, describe
from ..evidence import point, trajectory
from ..finding import Claim, Evidence, Finding
from .base import Rule, rule

AREA = "numerics"
FOLLOWERS = ("loss-spike", "plateau", "never-learned")
NAMED_LAYERS = 3
"""Layers named in a sentence; the rest are counted."""


@dataclass(frozen=True, slots=True)
class BadLayers:
    """Layers with a nonfinite gradient (or weight) in one sample, in the order of the schema."""

    ordinal: int
    x: int
    names: list[str]
    of: int
    what: str
    """"gradient" or "parameter norm"."""

    def evidence(self) -> Evidence:
        """Which layers, and which one stands first."""
        more = f" and {len(self.names) - NAMED_LAYERS} more" if len(self.names) > NAMED_LAYERS else ""
        names = ", ".join(self.names[:NAMED_LAYERS])
        return Evidence(
            f"nonfinite {self.what} in {len(self.names)} of {self.of} layers at step {self.x:,}: {names}{more}",
            "grad_nonfinite" if self.what == "gradient" else "param_norm",
            self.x,
            float(len(self.names)),
            "layers",
        )


def bad_layers(sample: LayerSample) -> BadLayers | None:
    """The layers of a sample whose gradient, else whose weight, is not finite."""
    names = sample.schema.names
    flags = sample.columns.get("grad_nonfinite") or []
    norms = sample.columns.get("grad_norm") or []
    weights = sample.columns.get("param_norm") or []
    grads = [
        name
        for index, name in enumerate(names)
        if (index < len(flags) and flags[index]) or (index < len(norms) and _nonfinite(norms[index]))
    ]
    if grads:
        return BadLayers(sample.ordinal, sample.x, grads, len(names), "gradient")
    poisoned = [name for name, norm in zip(names, weights, strict=False) if _nonfinite(norm)]
    return BadLayers(sample.ordinal, sample.x, poisoned, len(names), "parameter norm") if poisoned else None


def _nonfinite(value: float | None) -> bool:
    return value is not None and not math.isfinite(value)


@rule
class NonfiniteRule(Rule):
    """nonfinite-loss, one for each root of the loss, and nonfinite-grad where the loss of that step was finite.

    A step that loss scaling skipped may have any gradient: that is how the scale finds its level.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._scaled = False
        """Loss scaling is on: a nonfinite gradient is how it works."""
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
        self._first_layer = ""

    def layers(self, sample: LayerSample) -> None:
        bad = bad_layers(sample)
        if bad is None:
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
        # The gradient first: of one block, it may be the cause of a loss some steps later.
        self._gradient(block, _first_nonfinite(block))
        if block.losses.finite and all(detector.episode is None for detector in self._losses.values()):
            self._keep_calm(block)
        else:
            self._judge_losses(block)
        if self._bad is not None and self._bad.ordinal <= self.context.last_ordinal:
            self._judge_layers()

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
                    self._loss(name, episode, block.x[index])

    def _judge_layers(self) -> None:
        """The step of the bad sample is known: it names the layers of a finding, or is one itself."""
        bad = self._bad
        if bad is None:
            return
        if not self._loss_findings and self._grad_finding is None and not self._scaled:
            self._open_grad(bad.x, None, [])
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

    def _loss(self, name: str, episode: Episode, x: int) -> None:
        context = self.context
        finding = self._loss_findings.get(name)
        if finding is None:
            finding = self._open_loss(name, episode)
        elif episode.after[-1][0] == x:
            finding.evidence.append(point(name, x, episode.after[-1][1], "after"))
        finding.last_step = max(finding.last_step, episode.last_x)
        finding.claim.symptom = _loss_symptom(name, episode, self._first_layer)
        if episode.over:
            finding.resolve(episode.last_x, "warning")
            finding.claim.symptom += f"; finite again for {CALM} steps"
            del self._loss_findings[name]
            self._first_layer = ""
        context.book.changed()

    def _open_loss(self, name: str, episode: Episode) -> Finding:
        context = self.context
        context.fold(*FOLLOWERS, since=episode.first_x)
        what = describe(episode.first)
        cause = self._grad_finding
        claim = Claim(
            symptom=_loss_symptom(name, episode),
            hypothesis=_loss_hypothesis(episode, cause),
            fix=_loss_fix(episode),
            confidence=(
                "high that it happened: the loss is read at the root of backward. Medium on the cause: "
                "rerun from the last checkpoint with the same batch; if it does not come back, it was not the data."
            ),
            evidence=trajectory(name, episode.before, (episode.first_x, episode.first)),
            open_questions=[
                f"Does the batch of step {episode.first_x:,} hold {what}, an empty target, or a length of zero?",
                "Is the last checkpoint older than this step, and are its weights finite?",
            ],
        )
        if cause is not None:
            claim.evidence.append(
                Evidence(
                    f"the gradient was nonfinite first, at step {cause.first_step:,}", "grad_norm", cause.first_step
                )
            )
        finding = context.open(
            "nonfinite-loss",
            claim,
            severity="critical",
            area=AREA,
            failure_mode="optimization",
            where=name,
            first_x=episode.first_x,
        )
        self._loss_findings[name] = finding
        return finding

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
                self._open_grad(episode.first_x, episode.first, episode.before)
            finding = self._grad_finding
            if finding is None:
                continue
            finding.last_step = max(finding.last_step, episode.last_x)
            if episode.over:
                finding.resolve(episode.last_x, "warning")
                finding.claim.symptom += f"; finite again for {CALM} steps"
                self._grad_finding = None
            self.context.book.changed()

    def _open_grad(self, first_x: int, value: float | None, before: list[tuple[int, float]]) -> None:
        """`value` None: the layers show it, the norm was not measured."""
        context = self.context
        context.fold(*FOLLOWERS, since=first_x)
        bad = self._bad if self._bad is not None and self._bad.x <= first_x else None
        where, named, evidence = "grad_norm", "", list[Evidence]()
        if bad is not None:
            where, named, evidence = bad.names[0], f", first in {bad.names[0]}", [bad.evidence()]
        if value is not None:
            evidence = [*trajectory("grad_norm", before, (first_x, value)), *evidence]
        what = "nonfinite" if value is None else describe(value)
        self._grad_finding = context.open(
            "nonfinite-grad",
            Claim(
                symptom=f"gradient {what} at step {first_x:,}{named}, while the loss was finite",
                hypothesis=(
                    "The backward pass made it: a root, logarithm or division at zero, an overflow in half precision, "
                    "or a custom backward. The optimizer writes it into the weights, and the next losses are NaN."
                ),
                fix=(
                    "Skip the optimizer step when the gradient norm is not finite, then find the operation with "
                    "torch.autograd.set_detect_anomaly(True) on this batch; add an epsilon there, or run it in float32."
                ),
                confidence=(
                    "high: measured before the optimizer step. Low on the operation: anomaly detection would name it."
                ),
                evidence=evidence,
                open_questions=["Is clipping on? A NaN norm makes the clip coefficient NaN, and with it every weight."],
            ),
            severity="critical",
            area=AREA,
            failure_mode="optimization",
            where=where,
            first_x=first_x,
        )

    def _name_layers(self, finding: Finding, bad: BadLayers) -> None:
        """Say which layer was first; the earliest sample is the one that tells."""
        known = [item for item in finding.evidence if item.series in ("grad_nonfinite", "param_norm")]
        if known or bad.x < finding.first_step - 1:
            return
        finding.evidence.append(bad.evidence())
        if bad.x > finding.first_step:
            finding.evidence[-1].text += f" ({bad.x - finding.first_step:,} steps after the first nonfinite number)"
        elif finding.kind == "nonfinite-loss":
            self._first_layer = f"; first layer {bad.names[0]}"
            head, separator, rest = finding.claim.symptom.partition("; ")
            finding.claim.symptom = head + self._first_layer + separator + rest
        self.context.book.changed()


def _first_nonfinite(block: StepBlock) -> int:
    if block.losses.finite:
        return block.count
    bad = (index for losses in block.losses.values() for index, loss in enumerate(losses) if _nonfinite(loss))
    return min(bad, default=block.count)


def _finite_or_none(value: float | None) -> bool:
    return value is None or math.isfinite(value)


def _feed_tail(detector: NonfiniteDetector, x: Sequence[int], values: list[float | None]) -> None:
    for index in range(max(0, len(values) - 4), len(values)):
        value = values[index]
        if value is not None:
            detector.add(x[index], value)


def _loss_symptom(name: str, episode: Episode, first_layer: str = "") -> str:
    """What and where first: a narrow screen cuts the end off."""
    if episode.count == 1:
        return f"{name} is {describe(episode.first)} at step {episode.first_x:,}{first_layer}"
    begun = f"{name} is {describe(episode.first)} from step {episode.first_x:,} on{first_layer}"
    return f"{begun}; {episode.count:,} nonfinite values up to step {episode.last_x:,}"


def _loss_hypothesis(episode: Episode, cause: Finding | None) -> str:
    if cause is not None:
        return f"A nonfinite gradient at step {cause.first_step:,} was written into the weights; this is what follows."
    values = [value for _, value in episode.before]
    if len(values) >= 2 and values[-1] > 3.0 * values[0] > 0:
        return "The loss grew before it broke: divergence, by a learning rate that is too high or by an outlier."
    if math.isinf(episode.first):
        return "An overflow in the forward pass (half precision, exp, or a division by a number near zero)."
    return (
        "The loss was calm just before: one batch with NaN, Inf or an empty target, or one operation (log, sqrt, "
        "0/0) outside its domain."
    )


def _loss_fix(episode: Episode) -> str:
    step = f"step {episode.first_x:,}"
    return (
        f"Go back to a checkpoint before {step}; skip steps whose loss is not finite; check the batch of {step} for "
        "NaN, Inf and empty targets. If it is clean, lower the rate or clip at 1.0."
    )
