"""Gradients that pile up from step to step, are thrown away within a step, or come from windows of unequal length."""

from __future__ import annotations

import math
from typing import Final

from ..catalogue import kind
from ..context import Context, StepBlock
from ..detectors.windows import PilingUp, WindowCounter
from ..evidence import point
from ..finding import Claim, Evidence, Finding, Severity
from ..optimizers import uses_closure
from ..thresholds import threshold
from .base import Rule, rule

ACCUMULATING = kind(
    "gradient-accumulating",
    "optimization",
    "update/memory/step profile",
    meaning="Gradients are not what the optimizer should get: never cleared, so that each step adds all steps before "
    "it; cleared between the micro-batches of one step, so that only the last one counts; or summed over windows of "
    "unequal length.",
    detector="Calls of zero_grad and of backward in each step, and the growth of the gradient norm over the first "
    "steps.",
    severity="critical when the norm grows without a zero_grad, warning otherwise; info when no norm was read, or when "
    "few windows are unequal.",
)
STEPS = threshold(
    "gradient-accumulating.steps",
    16,
    unit="steps",
    low=2,
    meaning="Steps in a row without a zero_grad, or with one in each micro-batch. Raised, it is told later.",
    source="a job may clear late once; the probe's looks at steps 0 to 8 are over by then",
)
GROWTH = threshold(
    "gradient-accumulating.growth",
    3.0,
    low=1.2,
    meaning="Times the first gradient norm that it must have grown to. Raised, it is told later.",
    source="the sum of 9 gradients has 3 times the norm of one even if they have nothing in common (√9)",
)
SHARE = threshold(
    "gradient-accumulating.unequal-share",
    0.05,
    low=0.0,
    high=1.0,
    meaning="Share of the steps with an unequal window from which it is a warning. Raised, more of them are a note "
    "only.",
    source="one window an epoch of more than 20 steps is the usual remainder, and harmless",
)
LEAST_MICRO: Final = 3
"""Two calls of zero_grad for two backwards may be model and optimizer, each once."""
WINDOWS: Final = 3
"""Windows of unequal length before it is said."""
WHERE_NEVER: Final = "zero_grad"
WHERE_EACH: Final = "micro-batches"
WHERE_UNEQUAL: Final = "window"


@rule
class AccumulationRule(Rule):
    """gradient-accumulating, where "zero_grad" (never), "micro-batches" (too often) or "window" (unequal)."""

    ALIKE = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._patience = context.value(STEPS)
        self._share = context.value(SHARE)
        self._piling = PilingUp(context.value(GROWTH))
        self._windows = WindowCounter()
        self._uncleared = 0
        """Steps in a row without any zero_grad."""
        self._cleared = 0
        """Steps in which gradients were cleared."""
        self._each = 0
        """Steps in a row of several micro-batches, each with its zero_grad."""
        self._first_each = 0
        self._never: Finding | None = None
        self._too_often: Finding | None = None
        self._unequal: Finding | None = None

    def resumed(self) -> None:
        for finding in (self._never, self._too_often, self._unequal):
            if finding is not None and finding.status == "open":
                finding.resolve(self.context.last_x)
                self.context.book.changed()
        self.__init__(self.context)  # type: ignore[misc]

    def steps(self, block: StepBlock) -> None:
        zeros, micro = block.zero_grads, block.micro
        if zeros is None or micro is None:
            return
        if not self._piling.complete and block.grad_norm is not None:
            for x, norm in zip(block.x, block.grad_norm, strict=True):
                if norm is not None and math.isfinite(norm):
                    self._piling.add(x, norm)
        self._windows.add(block.x, _windows(block, micro))
        self._count(block, zeros, micro)
        self._judge_never()
        self._judge_each()
        self._judge_windows()

    def _count(self, block: StepBlock, zeros: list[float | None], micro: list[float | None]) -> None:
        if zeros.count(1) == block.count:
            self._cleared += block.count
            self._uncleared = self._each = 0
            return
        optimizers = block.optimizers or [None] * block.count
        for x, cleared, backwards, stepped in zip(block.x, zeros, micro, optimizers, strict=True):
            if cleared is None or not backwards:
                continue
            self._uncleared = 0 if cleared else self._uncleared + 1
            self._cleared += bool(cleared)
            if stepped == 1 and backwards >= LEAST_MICRO and cleared >= backwards:
                self._each += 1
                self._first_each = self._first_each if self._each > 1 else x
            else:
                self._each = 0

    def _judge_never(self) -> None:
        context, finding = self.context, self._never
        if finding is not None:
            stopped = self._piling.known and not self._piling.grows
            if self._cleared or stopped:
                # Seen after all, or somebody clears them by hand: a sum would have gone on growing.
                finding.resolve(context.last_x, "info")
                self._never = None
            finding.last_step = context.last_x
            context.book.changed()
            return
        if self._cleared or self._uncleared < self._patience:
            return
        grows, known = self._piling.grows, self._piling.known
        if known and not grows:
            # Somebody clears them by hand.
            return
        if not known and self._uncleared < 8 * self._patience:
            return
        severity: Severity = "critical" if grows else "info"
        self._open_never(_never_claim(self._uncleared, self._piling), severity)

    def _open_never(self, claim: Claim, severity: Severity) -> None:
        self._never = self.context.open(
            ACCUMULATING.name,
            claim,
            severity=severity,
            area=ACCUMULATING.area,
            failure_mode="optimization",
            where=WHERE_NEVER,
            first_x=self.context.first_x or 0,
            last_x=self.context.last_x,
        )

    def _judge_each(self) -> None:
        context, finding = self.context, self._too_often
        if finding is not None:
            if self._each:
                finding.last_step = context.last_x
            else:
                finding.resolve(context.last_x)
                self._too_often = None
            context.book.changed()
        elif self._each >= self._patience and not uses_closure(self.context.hello):
            micro = self._windows.usual
            self._too_often = context.open(
                ACCUMULATING.name,
                _each_claim(micro, self._each, self._first_each),
                severity="warning",
                area=ACCUMULATING.area,
                failure_mode="optimization",
                where=WHERE_EACH,
                first_x=self._first_each,
                last_x=context.last_x,
            )

    def _judge_windows(self) -> None:
        windows = self._windows
        odd, usual = windows.odd(), windows.usual
        if odd is None or usual < 2 or uses_closure(self.context.hello):
            return
        micro, count, first_x, last_x = odd
        # Windows of all lengths are how the job works, not a remainder.
        regular = windows.count(usual) + count >= 0.9 * windows.steps and windows.count(usual) >= 2 * count
        finding = self._unequal
        if not regular:
            if finding is not None:
                finding.resolve(self.context.last_x, "info")
                self._unequal = None
                self.context.book.changed()
            return
        if count < WINDOWS or windows.steps < self._patience:
            return
        severity: Severity = "warning" if count >= self._share * windows.steps else "info"
        claim = _window_claim(usual, micro, count, windows.steps, first_x, last_x)
        if finding is None:
            self._unequal = self.context.open(
                ACCUMULATING.name,
                claim,
                severity=severity,
                area=ACCUMULATING.area,
                failure_mode="optimization",
                where=WHERE_UNEQUAL,
                first_x=first_x,
                last_x=last_x,
            )
        elif finding.last_step != last_x:
            finding.claim, finding.severity, finding.last_step = claim, severity, last_x
            self.context.book.changed()


def _windows(block: StepBlock, micro: list[float | None]) -> list[float | None]:
    """Backward passes of the steps of a single optimizer step: in those of a GAN they belong to several."""
    stepped = block.optimizers
    if stepped is None or stepped.count(1) == block.count:
        return micro
    return [backwards if number == 1 else None for backwards, number in zip(micro, stepped, strict=True)]


def _never_claim(steps: int, piling: PilingUp) -> Claim:
    readings = piling.readings
    grown = ""
    if piling.grows:
        (_, first), (x, last) = readings[0], readings[-1]
        grown = f", and the gradient norm grew from {first:.3g} to {last:.3g} by step {x:,}"
    return Claim(
        symptom=f"zero_grad was not called in any of {steps:,} steps{grown}",
        hypothesis="Each backward adds to the gradients of all steps before it: the optimizer follows their sum, which "
        "is mostly old.",
        fix="Call optimizer.zero_grad(set_to_none=True) once a step, after optimizer.step().",
        confidence="high: no call was seen, and the norm grows as that of a sum."
        if piling.grows
        else "low: no call was seen, but gradients that are set to None by hand are not seen either; two gradient "
        "norms would tell.",
        evidence=[
            Evidence(f"calls of zero_grad in {steps:,} steps: 0", "zero_grads", None, 0.0),
            *(point("grad_norm", x, norm) for x, norm in readings),
        ],
        open_questions=[] if piling.grows else ["Does the job set the gradients to None itself?"],
    )


def _each_claim(micro: int, steps: int, first_x: int) -> Claim:
    return Claim(
        symptom=f"zero_grad is called in each of the {micro} micro-batches of a step: only the last one counts",
        hypothesis=f"The gradients of {micro - 1} of {micro} micro-batches are thrown away before the optimizer steps: "
        f"the batch is 1/{micro} of the intended one, and so is the gradient where the loss is divided by {micro}.",
        fix=f"Call zero_grad once a step, after optimizer.step(): once in {micro} micro-batches.",
        confidence=f"high: counted in {steps:,} steps in a row. Gradients that are kept elsewhere in between would "
        "change it.",
        evidence=[
            Evidence(f"{micro} backwards, {micro} or more zero_grads, 1 optimizer step, each step from {first_x:,} on",
                     "zero_grads", first_x, float(micro)),
        ],
        open_questions=["Are gradients copied away between the micro-batches?"],
    )  # fmt: skip


def _window_claim(usual: int, micro: int, count: int, steps: int, first_x: int, last_x: int) -> Claim:
    longer = micro > usual
    return Claim(
        symptom=f"{count:,} of {steps:,} accumulation windows have {micro} backwards, the others {usual} (last at step "
        f"{last_x:,})",
        hypothesis=(
            f"The batches of an epoch are no multiple of {usual}: the rest, {micro - usual}, is not used at its end, "
            f"and its gradients spill into the first step of the next epoch, {micro / usual:.3g} times too large."
            if longer
            else f"The batches of an epoch are no multiple of {usual}: the last window holds {micro}, and where the "
            f"loss is divided by {usual} its gradient is {micro / usual:.3g} of what it should be."
        ),
        fix=f"Step at the last batch of the epoch too, with the loss divided by the real length of the window ({micro} "
        f"there), or use drop_last with a multiple of {usual} batches.",
        confidence="high that the windows are unequal: counted. Low on the harm: it depends on what the loss is "
        "divided by.",
        evidence=[
            Evidence(f"first window of {micro} backwards at step {first_x:,}", "micro", first_x, float(micro)),
            Evidence(f"last one at step {last_x:,}", "micro", last_x, float(micro)),
            Evidence(f"share of the steps: {count / steps:.1%}", "micro", last_x, count / steps),
        ],
        open_questions=["What is the loss of a micro-batch divided by?"],
    )
