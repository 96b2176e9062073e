"""What is said of a loss curve: the sentences, the numbers under them, and the smallest fix."""

from __future__ import annotations

from .detectors.chance import ClassLevels, levels_of_k, near
from .detectors.constant import Constant
from .detectors.divergence import Divergence
from .detectors.evaluations import Worse
from .detectors.parts import Parts
from .detectors.plateau import Plateau
from .detectors.rate import RateWatch
from .detectors.spike import Spike
from .detectors.unlearned import Unlearned
from .evidence import jump_evidence, point, rate_evidence, trajectory
from .finding import Claim, Evidence, Severity

CHANCE = 0.05
"""How near a loss must be to ln K to be that of a guess."""
TWICE = 0.04
"""How near to the floor of two softmaxes: they come close to it and never quite reach it."""
END_SHARE = 0.9
"""From here on a run is at the end of its schedule: a flat loss is what one expects."""


def spike(name: str, found: Spike, rate: RateWatch) -> Claim:
    """A loss-spike, in whichever state it is."""
    height = f"{name} rose from {found.baseline:.4g} to {found.peak:.4g} at step {found.peak_x:,}"
    steps = found.last_x - found.first_x
    state = {
        "rising": "it is not back yet",
        "lingering": f"still {found.last:.4g} after {steps:,} steps (lingering)",
        "recovered": f"back after {steps:,} steps (recovered)",
    }[found.state]
    jump = rate.jump if rate.jump is not None and abs(rate.jump.x - found.first_x) <= 64 else None
    evidence = trajectory(name, found.before, (found.peak_x, found.peak), [(found.last_x, found.last)])
    if jump is not None:
        evidence.append(jump_evidence(jump))
    return Claim(
        symptom=f"{height}; {state}",
        hypothesis=(
            f"The learning rate rose from {jump.before:.3g} to {jump.after:.3g} at step {jump.x:,}."
            if jump is not None
            else "An outlier batch, or a rate near the edge of stability: curvature grew until a step overshot."
        ),
        fix=(
            "Nothing, if it stays a single one."
            if found.state == "recovered"
            else "Clip the gradient norm at 1.0 (or a quarter of what it is now); if it happens again, lower the peak "
            "rate by half or lengthen the warm-up. If it does not come back, restart from the checkpoint before it."
        ),
        confidence=(
            "high that it happened: several points in a row, ten times the noise. Low on the cause: the gradient norm "
            "of the layers and the batches of those steps would tell."
        ),
        evidence=evidence,
        open_questions=[f"Which samples were in the batches of steps {found.first_x:,} to {found.peak_x:,}?"],
    )


def nothing_lost(found: Divergence, parts: Parts | None, rise: float) -> bool:
    """By the weights of before the loss has not risen: only what it measures has changed."""
    if parts is None or not parts.changed or parts.by_old is None:
        return False
    return parts.by_old <= found.reference + rise * abs(found.reference)


def divergence(name: str, found: Divergence, rate: RateWatch, parts: Parts | None = None) -> Claim:
    """A divergence: exploding, above its start, or fallen back and stuck."""
    reference = f"{found.reference:.4g} at step {found.reference_x:,}"
    symptom = {
        "explosion": f"{name} exploded from {found.reference:.4g} to {found.level:.4g} by step {found.last_x:,}",
        "above-start": f"{name} is worse than at the start: {found.level:.4g}, it began with {reference}",
        "fallen": f"{name} lost most of its descent: back at {found.level:.4g}, it was {reference}",
        "regressed": f"{name} rose to {found.level:.4g} and stayed there; it was {reference}",
    }[found.how]
    jump = rate.jump
    if jump is not None:
        cause = f"The learning rate rose from {jump.before:.3g} to {jump.after:.3g} at step {jump.x:,}: too high."
    elif rate.warming:
        cause = "The learning rate is still rising in its warm-up and has passed what this model can take."
    else:
        cause = (
            "The learning rate is too high for this phase, or one bad update left the model (dead units, a saturated "
            "softmax, broken optimizer moments) where the gradient no longer leads back."
        )
    if parts is not None and parts.changed:
        return _other_objective(name, symptom, found, rate, parts)
    if parts is not None and parts.apart and parts.by_old is None and jump is None:
        cause = (
            f"Its parts go apart ({_moves(parts)}): the objective may have changed, by a weight that grows or a term "
            f"that was added. If not: {cause[0].lower()}{cause[1:]}"
        )
    return Claim(
        symptom=symptom,
        hypothesis=cause,
        fix=(
            f"Restart from the last checkpoint before step {found.first_x:,} with half the rate"
            + (f" (at most {jump.before:.3g})" if jump is not None else "")
            + " and the gradient norm clipped at 1.0; lengthen the warm-up if this was inside it."
        ),
        confidence=(
            "medium: the level is measured over a stretch, not a point. A loss that comes back within a few hundred "
            "steps by itself, or a new task mixed into the data at this step, would change it."
            if found.how in ("fallen", "regressed")
            else "high: far outside the noise of the first steps. A change of the loss function at this step would "
            "change it."
        ),
        evidence=[
            point(name, found.reference_x, found.reference, "before"),
            point(name, found.last_x, found.level, "now"),
            *_parts_evidence(name, parts),
            *rate_evidence(rate, found.last_x),
        ],
        open_questions=["Did the data, the loss or the schedule change at this step?"],
    )


def _other_objective(name: str, symptom: str, found: Divergence, rate: RateWatch, parts: Parts) -> Claim:
    """The parts of the loss do not add up to it any more as they did: their weights have changed."""
    whose = "a weight of a part has changed, or a part was added that is not logged"
    fix = "Print the weights of the parts beside the loss"
    if parts.grown is not None:
        part, before, now = parts.grown
        whose = f"the weight of {part} is {now:.3g}, it was {before:.3g}"
        fix = f"Look at what sets the weight of {part}"
    moves = _moves(parts)
    when = "" if parts.since_x is None else f" since step {parts.since_x:,}"
    last_x = found.reference_x if parts.since_x is None else parts.since_x
    return Claim(
        symptom=symptom + (f"; {moves}" if moves else ""),
        hypothesis=(
            f"The objective has changed{when}: {whose}. By the weights of before {name} would be "
            f"{parts.by_old:.4g} now; it was {found.reference:.4g}. A rate that is too high is less likely."
        ),
        fix=(
            f"{fix}: a schedule that counts steps where epochs are meant, or that has no upper bound? Hold it at the "
            f"value of step {found.reference_x:,}, from a checkpoint before step {last_x:,}. Nothing, where it is "
            "meant: then judge the parts, each by itself."
        ),
        confidence=(
            "high that the objective has changed: before, the parts added up to the loss within half a percent, and "
            "they do not since. A part that is logged of another batch since then would change it."
        ),
        evidence=[
            point(name, found.reference_x, found.reference, "before"),
            point(name, found.last_x, found.level, "now"),
            *_parts_evidence(name, parts),
            *rate_evidence(rate, found.last_x),
        ],
        open_questions=["Is this change of the loss planned?"],
    )


def _moves(parts: Parts) -> str:
    """ "train/recon rose from 9.6 to 35, train/kl fell from 26 to 1.2"."""
    verbs = {1: "rose", -1: "fell"}
    moved = [part for part in parts.parts if part.way]
    return ", ".join(f"{part.name} {verbs[part.way]} from {part.before:.3g} to {part.now:.3g}" for part in moved)


def _parts_evidence(name: str, parts: Parts | None) -> list[Evidence]:
    """Each logged part before and now; and whether they add up to the loss as before."""
    if parts is None:
        return []
    items = []
    for part in parts.parts:
        items += [point(part.name, part.before_x, part.before, "before"), point(part.name, part.now_x, part.now, "now")]
    if parts.by_old is not None:
        total = " + ".join(f"{part.weight:.3g} × {part.name}" for part in parts.parts if part.weight is not None)
        last_x = parts.parts[0].now_x
        text = f"{name} was {total}; that is {parts.by_old:.4g} now, " + (
            "not the loss" if parts.changed else "as it was"
        )
        items.append(Evidence(text, name, last_x, parts.by_old, basis="estimated"))
    return items


def both_rose(name: str, found: Worse, training: str, levels: tuple[float, float], rate: RateWatch) -> Claim:
    """A divergence that the validation loss shows: it rose and stays, and the training loss (`levels`) with it."""
    good, bad = levels
    return Claim(
        symptom=f"{name} rose to {found.level:.4g} and stays there; it was {found.best:.4g} at step {found.best_x:,}",
        hypothesis=(
            "One bad update left the model (dead units, a saturated softmax, broken optimizer moments), or the "
            "learning rate is too high for this phase. It is no overfitting: the training loss rose as well."
        ),
        fix=(
            f"Restart from the last checkpoint before step {found.since_x:,} with half the rate and the gradient norm "
            "clipped at 1.0."
        ),
        confidence=(
            "medium: three evaluations in a row, and the training loss with them. Another training or validation set "
            "since then would change it."
        ),
        evidence=[
            point(name, found.best_x, found.best, "best"),
            point(name, found.last_x, found.level, "now"),
            point(training, found.since_x, good, "mean up to the last good evaluation"),
            point(training, found.last_x, bad, "mean since"),
            *rate_evidence(rate, found.last_x),
        ],
        open_questions=["Did the data, the loss or the schedule change at this step?"],
    )


def never_learned(name: str, found: Unlearned, rate: RateWatch) -> Claim:
    """A loss that has not left its start."""
    levels = levels_of_k(found.initial)
    guess = levels is not None and near(found.level, levels.chance, CHANCE)
    return Claim(
        symptom=(
            f"{name} has not come down in {found.points:,} points: {found.initial:.4g} at the start, "
            f"{found.level:.4g} now"
        ),
        hypothesis=(
            "The learning rate is 0: no update changes anything."
            if rate.last == 0.0
            else "The updates do not lead downhill: a rate far too high or too low, labels that do not belong to their "
            "inputs, inputs that are constant or not normalized, or a loss that is cut from the model (detach, "
            "no_grad, argmax)."
        )
        + (f" It is a guess among {levels.classes} classes (ln K)." if levels is not None and guess else ""),
        fix=(
            "Look at the scheduler: what it multiplies the rate with, and whether it is stepped."
            if rate.last == 0.0
            else "Overfit one fixed batch of 8 samples first: if that fails too, it is the code (labels, loss, graph); "
            "if it works, try the rate at a tenth and at ten times, 200 steps each."
        ),
        confidence=(
            "medium: flat within 1 % since the start. A warm-up that is longer than this, or a loss with a high floor "
            "of its own, would change it."
        ),
        evidence=[
            point(name, found.initial_x, found.initial, "start"),
            Evidence(f"best stretch so far: {found.best:.4g}", name, found.last_x, found.best),
            point(name, found.last_x, found.level, "now"),
            *(_levels_evidence(levels, found.last_x) if levels is not None and guess else ()),
            *rate_evidence(rate, found.last_x),
        ],
        open_questions=[] if guess else ["What loss does a constant prediction give (ln of the number of classes)?"],
    )


def plateau_severity(found: Plateau, rate: RateWatch, total_steps: int | None) -> Severity:
    """warning when the rate is known and high and the run is not at its end; else info."""
    ending = total_steps is not None and found.last_x >= END_SHARE * total_steps
    return "info" if rate.last is None or rate.near_zero or ending else "warning"


def constant(name: str, found: Constant, rate: RateWatch) -> Claim:
    """A plateau to the last bit."""
    return Claim(
        symptom=f"{name} is exactly {found.level:.6g} in each of {found.points} points since step {found.first_x:,}",
        hypothesis=(
            "Nothing moves any more: the updates have become 0 (a rate of 0, gradients of 0, dead or saturated units), "
            "the same batch comes again and again, or the number that is logged is not computed anew."
        ),
        fix=(
            "Look at the gradient norm and the learning rate at this step. Both above 0: check that the batch changes, "
            "and that the logged loss is the one of this step."
        ),
        confidence=(
            "high that it stands still: the points before it differed. A loss that is logged in few digits would "
            "change it."
        ),
        evidence=[
            point(name, found.first_x, found.level, "since"),
            point(name, found.last_x, found.level, "now"),
            *rate_evidence(rate, found.last_x),
        ],
        open_questions=["Do the gradient norm and the parameters still change?"],
    )


def plateau(name: str, found: Plateau, rate: RateWatch, total_steps: int | None) -> Claim:
    """A plateau, with the interval of its slope."""
    steps = found.last_x - found.first_x
    share = abs(found.move) / max(abs(found.level), 1e-12)
    left = f", {max(0, total_steps - found.last_x):,} steps are left" if total_steps is not None else ""
    known = f"; the rate is {rate.last:.3g}" if rate.last is not None else ""
    levels = levels_of_k(found.initial)
    twice = levels is not None and near(found.level, levels.softmax_twice, TWICE)
    return Claim(
        symptom=f"smoothed {name} moved {share:.1%} in {steps:,} steps, at {found.level:.4g}{known}{left}",
        hypothesis=(
            "The schedule has come to its end."
            if rate.near_zero
            else _softmax_twice(levels)
            if levels is not None and twice
            else "At this rate and batch size the noise of the gradient balances the descent; or the model has learned "
            "what this data and capacity allow."
        ),
        fix=(
            "Give the loss the logits: take the softmax out of the model (or use NLLLoss on log_softmax)."
            if twice
            else "Nothing to gain from more steps at this rate: stop, or start the decay now (rate ×0.1) and see "
            "whether the loss drops within a tenth of the flat stretch."
        ),
        confidence=(
            "medium: the 95 % interval of the Theil–Sen slope includes 0 and its ends are small. A validation metric "
            "that still improves would change it."
        ),
        evidence=[
            point(name, 0, found.initial, "start"),
            Evidence(
                f"move over the window: {found.move:+.3g}, 95 % interval {found.low:+.3g} to {found.high:+.3g}",
                name,
                found.last_x,
                found.move,
                basis="estimated",
            ),
            Evidence(f"descent before it: {found.initial:.4g} to {found.level:.4g}", name, found.first_x, found.level),
            *(_levels_evidence(levels, found.last_x) if levels is not None and twice else ()),
            *rate_evidence(rate, found.last_x),
        ],
        open_questions=["Does the validation loss still move?", "Is the loss at the entropy of the data?"],
    )


def _softmax_twice(levels: ClassLevels) -> str:
    return (
        f"The softmax is applied twice: with {levels.classes} classes such a loss cannot fall below ln(e + K - 1) - 1, "
        f"{levels.softmax_twice:.4g}, which is where it stands."
    )


def _levels_evidence(levels: ClassLevels, x: int) -> list[Evidence]:
    """What the number of classes says, which is itself read from the first loss."""
    return [
        Evidence(f"ln {levels.classes} = {levels.chance:.4g}: a guess", "loss", x, levels.chance, basis="estimated"),
        Evidence(
            f"floor of two softmaxes for {levels.classes} classes: {levels.softmax_twice:.4g}",
            "loss",
            x,
            levels.softmax_twice,
            basis="estimated",
        ),
    ]
