"""What is said of numbers that stopped being numbers: how it looks, what may have done it, and what to do first."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from .detectors.badlayers import BadLayers
from .detectors.nonfinite import Episode, describe
from .evidence import trajectory
from .finding import Claim, Evidence, Finding
from .layer_names import listed

EDGES: Final = (
    "an operation whose derivative is infinite at the edge of its domain (a root or a norm at 0, log or a division at "
    "0, acos or asin at -1 and 1, a power below 1 at 0)"
)


@dataclass(slots=True)
class Surroundings:
    """What else is known of the step in which it began; None where it is not."""

    precision: str | None = None
    """As in the manifest: "float32, autocast float16"."""
    loss_scale: float | None = None
    batch: tuple[int, int] | None = None
    """Epoch, and number of the batch in it, both from 0."""
    checkpoint: tuple[int, str] | None = None
    """Step and path of the last checkpoint before it."""
    zero_gradient: bool = False
    """The gradient of the same step is exactly 0 in every layer."""
    clipped: bool = False
    """The job clips its gradients by their norm."""
    before: Evidence | None = None
    """What the gradients of the layers were in the last sample before it."""
    from_log: bool = False
    """The numbers are those of another tool's log."""

    def evidence(self, x: int) -> list[Evidence]:
        """The facts as they stand on the card."""
        items = []
        if self.precision:
            items.append(Evidence(f"computed in {self.precision}", "precision", x))
        if self.loss_scale is not None:
            items.append(Evidence(f"loss scale {self.loss_scale:,.0f}", "loss_scale", x, self.loss_scale))
        if self.batch is not None:
            epoch, number = self.batch
            items.append(Evidence(f"batch {number:,} of epoch {epoch:,}, both from 0", "epoch", x, float(number)))
        return items

    def range_or_precision(self) -> str:
        """What the number format makes likely."""
        if self.precision and "float16" in self.precision.replace("bfloat16", ""):
            return " float16 ends at 65,504: suspect the range (exp, sums, products of activations)."
        if self.precision and "bfloat16" in self.precision:
            return (
                " bfloat16 has the range of float32 and 8 bits: suspect cancellation, log and division, not overflow."
            )
        return ""

    def back(self, x: int) -> str:
        """The checkpoint to go back to."""
        if self.checkpoint is None:
            return f"a checkpoint before step {x:,}"
        at, path = self.checkpoint
        return f"the checkpoint of step {at:,} ({path})" if path else f"the checkpoint of step {at:,}"


def loss_symptom(name: str, episode: Episode, first_layer: str = "") -> str:
    """What and where first: a narrow screen cuts the end off."""
    if episode.count == 1:
        return f"{name} is {describe(episode.first)} at step {episode.first_x:,}{first_layer}"
    begun = f"{name} is {describe(episode.first)} from step {episode.first_x:,} on{first_layer}"
    return f"{begun}; {episode.count:,} nonfinite values up to step {episode.last_x:,}"


def loss_claim(name: str, episode: Episode, cause: Finding | None, around: Surroundings) -> Claim:
    """A loss that is NaN or Inf; `cause`: the nonfinite gradient before it."""
    what, x = describe(episode.first), episode.first_x
    read = "is what the job has logged" if around.from_log else "is read at the root of backward"
    evidence = [*trajectory(name, episode.before, (x, episode.first)), *around.evidence(x)]
    if cause is not None:
        text = f"the gradient was nonfinite first, at step {cause.first_step:,}"
        evidence.append(Evidence(text, "grad_norm", cause.first_step))
    if around.zero_gradient:
        evidence.append(Evidence(f"the gradient of step {x:,} is exactly 0 in every layer", "grad_norm", x, 0.0))
    return Claim(
        symptom=loss_symptom(name, episode),
        hypothesis=_loss_hypothesis(episode, cause, around),
        fix=_loss_fix(episode, around),
        confidence=(
            f"high that it happened: the loss {read}. Medium on the cause: "
            "rerun from the last checkpoint with the same batch; if it does not come back, it was not the data."
        ),
        evidence=evidence,
        open_questions=[
            f"Does the batch of step {x:,} hold {what}, an empty target, or a length of zero?",
            "Is the last checkpoint older than this step, and are its weights finite?",
        ],
    )


def passed(claim: Claim, episode: Episode, around: Surroundings | None) -> None:
    """A single one that is over: the weights were not harmed, which says what it can have been."""
    if episode.count != 1 or (around is not None and around.zero_gradient):
        return
    claim.hypothesis = (
        "One batch, and the weights were not harmed: its gradient was 0, or its step was skipped. The loss of a batch "
        "whose labels are all ignored is such a mean over nothing (0/0)."
    )
    claim.fix = (
        f"Look at the labels of the batch of step {episode.first_x:,}; skip batches without a label, or divide by "
        "max(1, number of labels)."
    )


def _loss_hypothesis(episode: Episode, cause: Finding | None, around: Surroundings) -> str:
    if cause is not None:
        return f"A nonfinite gradient at step {cause.first_step:,} was written into the weights; this is what follows."
    if around.zero_gradient:
        return (
            "The loss is a mean over nothing: every label of the batch is ignored (ignore_index) or masked, 0/0. Its "
            "gradient is exactly 0 in every layer, so the weights are not harmed."
        )
    values = [value for _, value in episode.before]
    if len(values) >= 2 and values[-1] > 3.0 * values[0] > 0:
        return "The loss grew before it broke: divergence, by a learning rate that is too high or by an outlier."
    if math.isinf(episode.first):
        return (
            "An overflow in the forward pass (half precision, exp, or a division by a number near zero)."
            + around.range_or_precision()
        )
    return (
        "The loss was calm just before: one batch with NaN, Inf or an empty target, or one operation (log, sqrt, "
        "0/0) outside its domain." + around.range_or_precision()
    )


def _loss_fix(episode: Episode, around: Surroundings) -> str:
    step = f"step {episode.first_x:,}"
    if around.zero_gradient:
        return f"Skip batches without a label, or divide by max(1, number of labels); look at the batch of {step}."
    return (
        f"Go back to {around.back(episode.first_x)}; skip steps whose loss is not finite; check the batch of {step} "
        "for NaN, Inf and empty targets. If it is clean, lower the rate or clip at 1.0."
    )


def grad_claim(
    x: int, value: float | None, before: list[tuple[int, float]], bad: BadLayers | None, around: Surroundings
) -> Claim:
    """A gradient that is not finite under a finite loss; `value` None: the layers show it, no norm was read."""
    named, evidence, spread = "", list[Evidence](), ""
    if bad is not None:
        named = f" in all {bad.of} layers" if bad.everywhere else f", first in {bad.names[0]}"
        evidence, spread = [bad.evidence()], _spread(bad.names[-1], around) if bad.everywhere else ""
        border = bad.border()
        evidence += [] if border is None else [border]
    if value is not None:
        evidence = [*trajectory("grad_norm", before, (x, value)), *evidence]
    what = "nonfinite" if value is None else describe(value)
    return Claim(
        symptom=f"gradient {what} at step {x:,}{named}, while the loss was finite",
        hypothesis=(
            f"The backward pass made it: {EDGES}, an overflow in half precision, or a custom backward. The optimizer "
            f"writes it into the weights, and the next losses are NaN.{spread}" + around.range_or_precision()
        ),
        fix=_grad_fix(x),
        confidence="high: measured before the optimizer step. Low on the operation: anomaly detection would name it.",
        evidence=[*evidence, *_before(around), *around.evidence(x)],
        open_questions=[_edge_question(x)]
        if around.clipped
        else ["Is clipping on? A NaN norm makes the clip coefficient NaN, and with it every weight."],
    )


def written_claim(x: int, loss: tuple[int, float] | None, bad: BadLayers, around: Surroundings) -> Claim:
    """A gradient that nobody read: the loss of its step `x` was finite, and the weights are not since."""
    last = [] if loss is None else [Evidence(f"loss {loss[1]:.4g} at step {loss[0]:,}: finite", "loss", *loss)]
    few = len(bad.poisoned) < bad.of
    place = bad.poisoned[0] if few else f"the weights of all {bad.of} layers" if bad.of > 1 else "the weights"
    return Claim(
        symptom=f"step {x:,} wrote a nonfinite gradient into {place}, while its loss was finite",
        hypothesis=(
            f"The backward pass made it: {EDGES}, or an overflow in half precision."
            + (_spread(bad.poisoned[-1], around) if bad.poisoned_everywhere else "")
            + around.range_or_precision()
            + (f" Or something else than the optimizer wrote to {listed(bad.poisoned)}." if few else "")
        ),
        fix=_grad_fix(x),
        confidence=f"high that it was step {x:,}: the weights are nonfinite before the next update. Low on the "
        "operation: anomaly detection would name it.",
        evidence=[
            *last,
            Evidence(
                f"weights nonfinite in {len(bad.poisoned)} of {bad.of} layers before the update of step {bad.x:,}"
                + (f": {listed(bad.poisoned)}" if few else ""),
                "param_norm",
                bad.x,
                float(len(bad.poisoned)),
                "layers",
            ),
            Evidence(f"so the gradient of step {x:,} was nonfinite", "grad_norm", x, None, basis="estimated"),
            *_before(around),
            *around.evidence(x),
        ],
        open_questions=[_edge_question(x)],
    )


def _spread(last: str, around: Surroundings) -> str:
    """What all layers at once say, and what not; `last`: the last one of the model."""
    if around.clipped:
        return (
            " Clipping spread it: one NaN makes the norm NaN, and with it what every gradient is multiplied by. So all "
            "layers are hit, whichever it began in; the order of their names says nothing."
        )
    return (
        f" All layers at once: backward begins at the loss, so it was made behind the last of them ({last}, in the "
        "order of the model), in the loss or what leads to it; unless something has scaled all gradients by their norm."
    )


def _before(around: Surroundings) -> list[Evidence]:
    return [] if around.before is None else [around.before]


def _edge_question(x: int) -> str:
    return (
        f"Does the batch of step {x:,} hold a sample of nothing but zeros or of length zero, or vectors that are "
        "exactly parallel (a cosine of 1)?"
    )


def _grad_fix(x: int) -> str:
    return (
        "Skip the optimizer step when the gradient norm is not finite, then find the operation with "
        f"torch.autograd.set_detect_anomaly(True) on the batch of step {x:,}; keep its input off the edge "
        "(sqrt(x + 1e-12), x.clamp(-1 + 1e-6, 1 - 1e-6)), or run it in float32."
    )
