"""How the loop is run: training in evaluation mode, and backward passes that no optimizer step follows."""

from __future__ import annotations

from typing import Final

from ntstop_probe import wire

from ..catalogue import kind
from ..context import Context, StepBlock
from ..finding import Claim, Evidence, Finding, Severity
from ..thresholds import threshold
from .base import Rule, rule
from .updates import NOT_UPDATING

EVAL_MODE = kind(
    "eval-mode-training",
    "optimization",
    "update/memory/step profile",
    meaning="Gradients are computed while the model is in evaluation mode: dropout drops nothing, batch norm uses old "
    "statistics and does not learn them.",
    detector="The training flag of the whole model, looked at some times a second while it is in backward or in the "
    "optimizer. A part of the model in evaluation mode is taken to be meant.",
    severity="warning; info where no module of the model behaves otherwise in evaluation mode.",
)
LOOKS = threshold(
    "eval-mode-training.looks",
    3,
    unit="looks",
    low=1,
    meaning="Looks in a row, a few a second, that must find evaluation mode. Raised, it is told later.",
    source="a look may fall between a backward and an evaluation: never twice in a row in a loop that trains",
)
BACKWARDS = threshold(
    "params-not-updating.backwards",
    256,
    unit="passes",
    low=2,
    meaning="Backward passes without an optimizer step. Raised, it is told later.",
    source="accumulation goes to 128 micro-batches in the published recipes; and eight times what the run itself used",
)
TIMES: Final = 8.0
"""Times the longest accumulation of the run so far."""
WHERE_STEP: Final = "optimizer step"


@rule
class EvalModeRule(Rule):
    """eval-mode-training."""

    ALIKE = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._needed = context.value(LOOKS)
        self._looks = 0
        """In a row, up to the newest, that found evaluation mode."""
        self._since = 0
        self._finding: Finding | None = None

    def resumed(self) -> None:
        self._end()

    def heartbeat(self, heartbeat: wire.Heartbeat) -> None:
        if not heartbeat.looks:
            return
        if heartbeat.eval_since is None:
            self._end()
            return
        if self._looks == 0 or heartbeat.eval_since > self._since:
            self._looks, self._since = 0, heartbeat.eval_since
        self._looks += heartbeat.eval_looks
        context, finding = self.context, self._finding
        if finding is not None:
            finding.last_step = max(finding.last_step, context.x_of(heartbeat.ordinal))
        elif self._looks >= self._needed:
            severity: Severity = "warning" if heartbeat.sensitive else "info"
            first_x = context.x_of(self._since)
            self._finding = context.open(
                EVAL_MODE.name,
                _eval_claim(first_x, self._looks, heartbeat.sensitive),
                severity=severity,
                area=EVAL_MODE.area,
                failure_mode="optimization",
                where="model",
                first_x=first_x,
                last_x=max(first_x, context.x_of(heartbeat.ordinal)),
            )

    def _end(self) -> None:
        self._looks = 0
        if self._finding is not None:
            self._finding.resolve(self.context.last_x)
            self._finding = None
            self.context.book.changed()


@rule
class UnsteppedRule(Rule):
    """params-not-updating, where "optimizer step": backward passes go on, and no optimizer steps."""

    ALIKE = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._least = context.value(BACKWARDS)
        self._longest = 0.0
        self._finding: Finding | None = None

    def steps(self, block: StepBlock) -> None:
        micro = block.micro
        if micro is not None:
            self._longest = max(self._longest, max(filter(None, micro), default=0.0))
        if self._finding is not None:
            self._finding.resolve(block.x[0])
            self._finding = None
            self.context.book.changed()

    def heartbeat(self, heartbeat: wire.Heartbeat) -> None:
        if heartbeat.backwards < max(self._least, TIMES * self._longest):
            return
        context = self.context
        claim = _unstepped_claim(heartbeat.backwards, context.steps)
        if self._finding is None:
            at = context.x_open if context.steps else 0
            self._finding = context.open(
                NOT_UPDATING.name,
                claim,
                severity="warning",
                area=NOT_UPDATING.area,
                failure_mode="optimization",
                where=WHERE_STEP,
                first_x=at,
            )
        else:
            self._finding.claim = claim
            context.book.changed()


def _eval_claim(first_x: int, looks: int, sensitive: int) -> Claim:
    what = f"{sensitive} dropout or batch norm modules" if sensitive else "no dropout and no batch norm"
    return Claim(
        symptom=f"the model is trained in evaluation mode since step {first_x:,} at the latest ({what})",
        hypothesis="An evaluation called model.eval() and nobody called model.train() after it, or a model that was "
        "loaded in evaluation mode was never switched.",
        fix="Call model.train() at the beginning of each epoch and after each evaluation.",
        confidence="high that it is in evaluation mode: read while it was in backward. "
        + ("Medium that it is a mistake." if sensitive else "Low that it matters: nothing in it behaves otherwise."),
        evidence=[
            Evidence(f"{looks} looks in a row in backward or optimizer, since step {first_x:,}: training is False",
                     "mode", first_x, float(looks), "looks"),
            Evidence(f"modules that behave otherwise in evaluation mode: {sensitive}", "mode", first_x,
                     float(sensitive), "modules"),
        ],
        open_questions=["Is evaluation mode meant (a fine-tune with fixed statistics)?",
                        "Does a module use functional dropout? Those are not counted."],
    )  # fmt: skip


def _unstepped_claim(backwards: int, steps: int) -> Claim:
    since = f"since step {steps:,}" if steps else "since the start"
    return Claim(
        symptom=f"{backwards:,} backward passes {since}, and not one optimizer step",
        hypothesis="optimizer.step() is not called: scheduler.step() stands in its place, a condition never holds, or "
        "the step is that of another library that the probe does not see.",
        fix="Call optimizer.step() after loss.backward(), then scheduler.step(). A job that moves its weights itself "
        "is not wrong, but has no steps that can be seen.",
        confidence="high that no optimizer of torch stepped: its hooks would have told. An optimizer that is none of "
        "torch.optim's would change it.",
        evidence=[Evidence(f"backward passes without a step: {backwards:,}", "backwards", None, float(backwards))],
        open_questions=["Does the job update its weights without a torch optimizer?"],
    )
