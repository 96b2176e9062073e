"""Parameters that should move and do not."""

from __future__ import annotations

from collections import deque

from ntstop_probe import wire

from ..catalogue import kind
from ..context import Context, LayerSample, StepBlock
from ..detectors.frozen import MIN_SAMPLES, MIN_STEPS, UNGRADED_STEPS, FrozenDetector, Still
from ..finding import Claim, Evidence, Finding
from ..optimizers import uses_closure
from ..thresholds import threshold
from .base import Rule, rule

NOT_UPDATING = kind(
    "params-not-updating",
    "optimization",
    "update/memory/step profile",
    meaning="Nothing that should be trained moves: the optimizer holds other tensors than the model's, or none of its "
    "own gets a gradient, or every step changes nothing.",
    detector="Membership by identity of the tensors; parameter norms that are bitwise the same, or update ratios of "
    "exactly 0, in samples in a row at a rate above zero; backward passes without an optimizer step.",
    severity="critical; warning for backward passes without a step, as another library may make it.",
)
SAMPLES = threshold(
    "params-not-updating.samples",
    MIN_SAMPLES,
    unit="samples",
    low=2,
    meaning="Samples in a row in which no parameter moved. Raised, it is told later.",
    source="a step or two may be skipped by loss scaling; the probe looks at steps 0, 1, 2, 4 and 8 of every run",
)
KIND = NOT_UPDATING.name
SETTLE = 5
"""Finished steps before the schema is believed: optimizers may be built one after the other."""
OVER = 1e-3
"""Of its peak, below which a rate has come to the end of its schedule: a step is then less than float32 tells apart."""
NAMED = 3


@rule
class ParamsNotUpdatingRule(Rule):
    """No trainable parameter is in an optimizer, none of the optimizer's ever gets a gradient, or none moves.

    Folds plateau and never-learned: a model that is not updated cannot come down. A rate of zero is not this, nor is
    one that a schedule has taken as good as there.
    """

    ALIKE = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._frozen = FrozenDetector(int(context.value(SAMPLES)))
        self._schema: wire.Schema | None = None
        self._waiting: deque[LayerSample] = deque(maxlen=64)
        """Samples of steps that are not told yet: a sample comes before its step, which has its rate."""
        self._told: StepBlock | None = None
        self._ungraded = 0
        self._finding: Finding | None = None

    def schema(self, schema: wire.Schema) -> None:
        self._schema = schema
        self._waiting.clear()
        self._frozen.reset()
        self._ungraded = 0
        if self._finding is not None and self._finding.where == "optimizer" and _held(schema):
            self._resolve(self.context.last_x)

    def resumed(self) -> None:
        self._waiting.clear()
        self._told = None
        self._frozen.reset()
        self._ungraded = 0

    def steps(self, block: StepBlock) -> None:
        self._told = block
        while self._waiting and self._waiting[0].ordinal < block.ordinal + block.count:
            self._judge(self._waiting.popleft(), block)
        schema = self._schema
        if schema is None or self._finding is not None or self.context.steps < SETTLE:
            return
        trainable = _trainable(schema)
        if trainable and schema.in_optimizer and not _held(schema):
            self._open(_not_held(schema, trainable, self.context.last_x), "optimizer", self.context.first_x or 0)

    def layers(self, sample: LayerSample) -> None:
        told = self._told
        if told is not None and sample.ordinal < told.ordinal + told.count:
            self._judge(sample, told)
        else:
            self._waiting.append(sample)

    def _judge(self, sample: LayerSample, block: StepBlock) -> None:
        """One sample, with the block of its step, or the first one after it where that is lost."""
        schema = sample.schema
        ours = [
            index
            for index in range(len(schema.names))
            if not _flag(schema.frozen, index, False) and _flag(schema.in_optimizer, index, True)
        ]
        rate = _rate_at(block, sample.ordinal)
        if not ours or rate == 0.0 or (rate is not None and rate < OVER * self.context.rate.peak):
            return
        pick = {name: [column[index] for index in ours] for name, column in sample.columns.items()}
        grads = pick.get("grad_norm")
        nothing = grads is None or all(grad is None for grad in grads)
        least = UNGRADED_STEPS if nothing else MIN_STEPS
        still = self._frozen.add(sample.x, pick.get("param_norm"), pick.get("update_ratio"), least)
        self._ungraded = self._ungraded + 1 if nothing and "param_norm" in pick else 0
        if still is None:
            if self._finding is not None and self._finding.where == "parameters" and not self._frozen.standing:
                self._resolve(sample.x)
            return
        if self._finding is not None:
            self._finding.last_step = max(self._finding.last_step, sample.x)
            return
        if uses_closure(self.context.hello) and not nothing:
            # It stops by itself where it has converged.
            return
        # Without a gradient at all the optimizer skips them: the graph does not reach what it holds.
        names = [schema.names[index] for index in ours]
        ungraded = self._ungraded >= still.samples
        self._open(_not_moving(still, names, rate, ungraded=ungraded), "parameters", still.first_x)

    def _open(self, claim: Claim, where: str, first_x: int) -> None:
        self._finding = self.context.open(
            KIND,
            claim,
            severity="critical",
            area=NOT_UPDATING.area,
            failure_mode="optimization",
            where=where,
            first_x=first_x,
            last_x=self.context.last_x,
        )

    def _resolve(self, x: int) -> None:
        if self._finding is not None:
            self._finding.resolve(x, "info")
            self._finding = None
            self.context.book.changed()


def _rate_at(block: StepBlock, ordinal: int) -> float | None:
    """The largest rate of a step, or of the end of the block that is nearest to it; None when it is not known."""
    if block.rate is None:
        return None
    return block.rate[min(max(ordinal - block.ordinal, 0), block.count - 1)]


def _flag(flags: list[bool], index: int, default: bool) -> bool:
    return flags[index] if index < len(flags) else default


def _trainable(schema: wire.Schema) -> list[str]:
    return [name for index, name in enumerate(schema.names) if not _flag(schema.frozen, index, False)]


def _held(schema: wire.Schema) -> bool:
    """Whether an optimizer holds any trainable parameter of the model."""
    return any(held and not _flag(schema.frozen, index, False) for index, held in enumerate(schema.in_optimizer))


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _not_held(schema: wire.Schema, trainable: list[str], x: int) -> Claim:
    return Claim(
        symptom=f"the optimizer holds none of the {len(trainable)} trainable parameters of the model",
        hypothesis=(
            "The optimizer was built from other tensors: from a copy of the model, before the model was moved, wrapped "
            "or re-created, or from an empty or filtered list."
        ),
        fix="Build the optimizer last, from the model that computes the loss: Optimizer(model.parameters(), lr=...).",
        confidence=(
            "high: compared by identity of the tensors. A second optimizer that the probe has not seen step would "
            "change it."
        ),
        evidence=[
            Evidence(
                f"trainable and in no optimizer: {_listed(trainable)}",
                "in_optimizer",
                x,
                float(len(trainable)),
                "layers",
            ),
            Evidence(f"parameters in the schema: {len(schema.names)}", "in_optimizer", x, float(len(schema.names))),
        ],
    )


def _not_moving(still: Still, names: list[str], rate: float | None, *, ungraded: bool) -> Claim:
    at_rate = "" if rate is None else f", at a rate of {rate:.3g}"
    span = f"steps {still.first_x:,} to {still.last_x:,}"
    if still.how == "update_ratio":
        seen = Evidence(f"update ratio exactly 0 in {still.samples} samples, {span}", "update_ratio", still.last_x, 0.0)
    else:
        norm = next((norm for norm in still.norms if norm is not None), None)
        seen = Evidence(
            f"parameter norms bitwise the same in {still.samples} samples, {span}", "param_norm", still.last_x, norm
        )
    evidence = [seen]
    if ungraded:
        evidence.append(
            Evidence(f"no gradient reached any of the optimizer's tensors in {span}", "grad_norm", still.last_x)
        )
    return Claim(
        symptom=f"none of the {len(names)} parameters in the optimizer moves{at_rate} ({span})",
        hypothesis=(
            "The optimizer holds tensors that the loss does not depend on: another copy of the model, or a graph cut "
            "by detach() or no_grad()."
            if ungraded
            else "The step changes nothing: every step is skipped, the gradients are zeroed between backward and step, "
            "or the update is smaller than the precision of the weights."
        ),
        fix=(
            "Build the optimizer from the parameters of the model that computes the loss, after moving and wrapping it."
            if ungraded
            else "Call loss.backward(), then optimizer.step(), then zero_grad(), in this order; keep master weights in "
            "float32."
        ),
        confidence="high: "
        + ("no gradient and no motion." if ungraded else "measured on the weights themselves.")
        + " One sample in which a norm changes would change it.",
        evidence=evidence,
        open_questions=[f"Are these the layers you train: {_listed(names)}?"],
    )
