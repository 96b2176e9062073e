"""Parts of the model that are not trained: frozen, in no optimizer, or never reached by a gradient."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

import numpy as np

from ntstop_probe import wire

from ..catalogue import kind
from ..context import Context, LayerSample, StepBlock
from ..detectors.chance import levels_of_k, near
from ..detectors.gradflow import Flags, GradientFlow
from ..evidence import point
from ..finding import Claim, Evidence, Finding, Severity
from ..layer_names import common, is_adapter, is_expert, is_named, is_weight, listed, module_of, sizes_of
from ..thresholds import threshold
from .base import Rule, rule

FROZEN = kind(
    "frozen-layers",
    "optimization",
    "update/memory/step profile",
    meaning="A part of the model does not learn: it gets gradients that no optimizer uses, an optimizer holds it and "
    "no gradient reaches it, or so much is frozen that the loss stays where it began.",
    detector="requires_grad and membership in an optimizer, by identity of the tensors; the gradients of the layers in "
    "several samples; the loss against its start.",
    severity="critical for a part that was thawed, or lies behind trained ones, and is in no optimizer; warning for "
    "one without a gradient; info for a small unused part, for experts that no input is routed to, and for an input "
    "side that is left out of the optimizer while a head is trained. Adapters on a frozen model are none.",
)
SAMPLES = threshold(
    "frozen-layers.samples",
    5,
    unit="samples",
    low=2,
    meaning="Samples in a row in which a layer has no gradient, or one that nobody uses. Raised, it is told later.",
    source="the probe's looks at steps 0, 1, 2, 4 and 8; a layer that is used now and then is seen in one of them",
)
UNUSED = threshold(
    "frozen-layers.unused-share",
    0.05,
    high=1.0,
    meaning="Share of the trained parameters without a gradient from which it is a warning. Raised, larger unused "
    "parts are notes only.",
    source="pooling layers and heads that a task does not use are 1 to 2 % of the usual models",
)
FLAT_STEPS = threshold(
    "frozen-layers.flat-steps",
    300,
    unit="steps",
    low=32,
    meaning="Steps after which the loss of a mostly frozen model is compared with its start. Raised, it is told "
    "later, and a slow start is forgiven.",
    source="language models and ViT gain 1 % in 60 to 100 steps of warm-up (AlgoPerf development curves)",
)
FALL: Final = 0.02
"""A loss that has fallen by less than this share of its start has not begun to fall."""
MOSTLY: Final = 0.5
"""Share of frozen elements from which the frozen part may be the reason."""
SETTLE: Final = 20
"""Steps before it is said which tensors no optimizer holds: a second optimizer may step late."""
START: Final = 16
"""Losses whose mean is the start."""


@dataclass(slots=True)
class _Part:
    """Layers that do not learn, for one reason."""

    names: list[str]
    share: float
    """Of the elements that ought to be trained."""
    first_x: int


@rule
class FrozenLayersRule(Rule):
    """frozen-layers: "unheld" (gradients without an optimizer), "unreached" (no gradient) and "frozen" (by flag)."""

    ALIKE = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._samples = context.value(SAMPLES)
        self._unused = context.value(UNUSED)
        self._flat_steps = context.value(FLAT_STEPS)
        self._schema: wire.Schema | None = None
        self._flow: GradientFlow | None = None
        self._due = False
        self._thawed: set[str] = set()
        """Layers that were frozen once and are not any more: they are meant to learn."""
        self._findings: dict[str, Finding] = {}
        self._start: list[float] = []
        self._recent: deque[tuple[int, float]] = deque(maxlen=64)
        """Mean losses of the newest blocks, with their number of points."""
        self._seen = 0

    def schema(self, schema: wire.Schema) -> None:
        known = self._schema
        if known is not None and known is not schema:
            then = {name for name, frozen in zip(known.names, known.frozen, strict=False) if frozen}
            self._thawed |= {name for name, now in zip(schema.names, schema.frozen, strict=False) if not now} & then
        self._schema = schema
        self._flow = GradientFlow(len(schema.names))
        self._due = False

    def resumed(self) -> None:
        if self._schema is not None:
            self.schema(self._schema)

    def layers(self, sample: LayerSample) -> None:
        if self._flow is None or sample.schema is not self._schema:
            self.schema(sample.schema)
        assert self._flow is not None
        columns = sample.columns
        self._flow.add(sample.x, columns.get("grad_norm"), columns.get("param_norm"), columns.get("update_ratio"))
        self._due = self._flow.samples >= self._samples

    def steps(self, block: StepBlock) -> None:
        schema = self._schema
        if schema is None:
            return
        if self._due and self.context.steps >= SETTLE:
            self._due = False
            self._judge_gradients(schema)
        if any(schema.frozen):
            self._watch_loss(schema, block)

    def _judge_gradients(self, schema: wire.Schema) -> None:
        flow = self._flow
        assert flow is not None
        named = np.array([is_named(name) for name in schema.names], np.bool_)
        held = _flags(schema.in_optimizer, len(schema.names), True)
        live = flow.live >= self._samples
        # An optimizer that trains tensors of its own has copies of the model's: master weights, flat partitions.
        copies = bool((held & ~named & (flow.live > 0)).any())
        unheld = named & ~held & live & (not copies)
        if (held & (flow.live > 0)).any() or unheld.any():
            self._keep("unheld", schema, unheld, flow)
            frozen = _flags(schema.frozen, len(schema.names), False)
            idle = held & ~frozen & flow.enough(flow.ungraded, self._samples)
            # Other tensors than the model's, in the optimizer: what is missing is told as "unheld".
            self._keep("unreached", schema, idle & named if (live & held).any() else np.zeros_like(idle), flow)

    def _keep(self, why: str, schema: wire.Schema, which: Flags, flow: GradientFlow) -> None:
        """Open the finding of `why`, bring it up to date, or close it."""
        finding = self._findings.get(why)
        names = [name for name, flag in zip(schema.names, which, strict=True) if flag]
        if not any(map(is_weight, names)):
            if finding is not None:
                finding.resolve(flow.last_x, "info" if why == "unreached" else None)
                del self._findings[why]
                self.context.book.changed()
            return
        if finding is not None:
            finding.last_step = max(finding.last_step, flow.last_x)
            return
        sizes = np.array(sizes_of(schema), np.float64)
        trained = ~_flags(schema.frozen, len(schema.names), False) | which
        part = _Part(names, float(sizes[which].sum() / max(1.0, sizes[trained].sum())), int(flow.since[which].min()))
        if why == "unheld":
            output = _output_side(which, flow.live > 0)
            # A gradient under a flag of frozen: it was thawed, and the schema is from before.
            thawed = self._thawed.intersection(names) or any(
                frozen and flag for frozen, flag in zip(schema.frozen, which.tolist(), strict=False)
            )
            severity: Severity = "critical" if output or thawed else "info"
            claim = _unheld(part, flow, severity)
        else:
            chosen = [name for name, live in zip(schema.names, flow.live > 0, strict=True) if live and is_expert(name)]
            routed = bool(chosen) and all(map(is_expert, names))
            severity = "info" if routed or part.share < self._unused else "warning"
            claim = _unreached(part, flow, _cut(schema.names, which, flow.live > 0))
            if routed:
                claim.hypothesis = (
                    f"No input was ever routed to them, while {listed(sorted(set(map(module_of, chosen))))} are used."
                )
                claim.fix = "Weigh the balance of the router's load more, or start it with less bias or more noise."
        self._findings[why] = self._open(claim, severity, common(names), part.first_x)

    def _watch_loss(self, schema: wire.Schema, block: StepBlock) -> None:
        losses = block.losses
        if len(losses) != 1 or "frozen" in self._findings:
            return
        values = [loss for loss in losses[losses.names[0]] if loss is not None]
        if not values:
            return
        self._seen += len(values)
        if len(self._start) < START:
            self._start += values[: START - len(self._start)]
        self._recent.append((block.x[-1], sum(values) / len(values)))
        if self._seen >= self._flat_steps:
            self._judge_flat(schema, losses.names[0])

    def _judge_flat(self, schema: wire.Schema, name: str) -> None:
        frozen = _flags(schema.frozen, len(schema.names), False)
        sizes = np.array(sizes_of(schema), np.float64)
        share = float(sizes[frozen].sum() / sizes.sum())
        trained = [layer for layer, flag in zip(schema.names, frozen, strict=True) if not flag]
        self._seen = -(1 << 40)  # looked at once
        if share < MOSTLY or not trained or any(map(is_adapter, trained)):
            return
        start = sum(self._start) / len(self._start)
        late = [loss for _, loss in list(self._recent)[-8:]]
        level = sum(late) / len(late)
        rate = self.context.rate
        if start <= 0.0 or level < (1.0 - FALL) * start or rate.warming:
            return
        claim = _mostly_frozen(name, share, trained, start, level, self.context)
        self._findings["frozen"] = self._open(claim, "warning", common(trained), self.context.first_x or 0)

    def _open(self, claim: Claim, severity: Severity, where: str, first_x: int) -> Finding:
        return self.context.open(
            FROZEN.name,
            claim,
            severity=severity,
            area=FROZEN.area,
            failure_mode="optimization",
            where=where,
            first_x=first_x,
            last_x=self.context.last_x,
        )


def _flags(flags: list[bool], size: int, default: bool) -> Flags:
    return np.array((flags + [default] * size)[:size], np.bool_)


def _output_side(which: Flags, live: Flags) -> bool:
    """Whether these layers come after some that are trained: a head, not the frozen bottom under it."""
    trained = np.flatnonzero(live & ~which)
    return not len(trained) or int(np.flatnonzero(which)[-1]) > int(trained[-1])


def _unheld(part: _Part, flow: GradientFlow, severity: Severity) -> Claim:
    where = common(part.names)
    return Claim(
        symptom=f"{where} gets gradients and is in no optimizer: {part.share:.1%} of the parameters do not move",
        hypothesis="The optimizer was built before this part was created, replaced or thawed."
        if severity == "critical"
        else "Only a later part was given to the optimizer: a head on a fixed model, and its backward is computed in "
        "vain; or the parameters were filtered by mistake.",
        fix=f"Build the optimizer after the model is complete, or optimizer.add_param_group for {where}; if it is to "
        f"stay fixed, {where}.requires_grad_(False) saves its backward.",
        confidence="high that it does not move: compared by identity of the tensors. "
        + ("Medium" if severity == "critical" else "Low")
        + " that it should: an optimizer that has not stepped yet would change it.",
        evidence=[
            Evidence(f"with a gradient, in no optimizer: {listed(part.names)}", "in_optimizer", flow.last_x,
                     float(len(part.names)), "layers"),
            Evidence(f"seen in every sample from step {part.first_x:,} to {flow.last_x:,}", "grad_norm", flow.last_x),
        ],
        open_questions=[f"Is {where} meant to stay as it is?"],
    )  # fmt: skip


def _cut(names: list[str], which: Flags, live: Flags) -> tuple[str, str] | None:
    """(last module without a gradient, first with one) where all those without come before all those with one."""
    without, ones = np.flatnonzero(which), np.flatnonzero(live)
    if not len(ones) or without[-1] > ones[0]:
        return None
    return module_of(names[without[-1]]), module_of(names[ones[0]])


def _unreached(part: _Part, flow: GradientFlow, cut: tuple[str, str] | None) -> Claim:
    where = common(part.names)
    reach = f"{where} to {cut[0]}" if cut is not None and not cut[0].startswith(where) else where
    between = f"{cut[0]} and {cut[1]}" if cut is not None else f"{where} and the loss"
    return Claim(
        symptom=f"no gradient ever reaches {reach}: {part.share:.1%} of the trained parameters do not learn",
        hypothesis="The graph is cut "
        + (f"between {between}" if cut is not None else "before it")
        + " (detach(), no_grad(), an operation without a gradient such as argmax), or forward does not use it.",
        fix=f"Look for detach, .data, .item or no_grad between {between}, and whether forward calls it; "
        "if it is not needed, take it out of the optimizer.",
        confidence="high that nothing reaches it: .grad is None in every sample. Low on the reason: the graph is not "
        "seen.",
        evidence=[
            Evidence(f"in the optimizer, without a gradient: {listed(part.names)}", "grad_norm", flow.last_x,
                     float(len(part.names)), "layers"),
            Evidence(f"in {int(flow.samples)} samples up to step {flow.last_x:,}, while other layers have one",
                     "grad_norm", flow.last_x),
        ],
        open_questions=[f"Is {where} used by the loss at all?"],
    )  # fmt: skip


def _mostly_frozen(name: str, share: float, trained: list[str], start: float, level: float, context: Context) -> Claim:
    levels = levels_of_k(start)
    chance = ""
    if levels is not None and near(level, levels.chance, 0.1):
        chance = f"; ln {levels.classes} = {levels.chance:.3g} is a guess among {levels.classes} classes"
    return Claim(
        symptom=f"{share:.1%} of the parameters are frozen and {name} stays at {level:.4g} (it began at {start:.4g})",
        hypothesis=f"What is trained ({listed(trained)}) cannot bring the loss down: the head or the backbone should "
        f"be trained too, or the frozen part is not pretrained{chance}.",
        fix="Check that the pretrained weights were loaded; set requires_grad_(True) for the head or the last block, "
        "then build the optimizer.",
        confidence="medium: the flags and the loss are measured. A rate that is far too low would do the same.",
        evidence=[
            Evidence(f"frozen: {share:.1%} of the elements; trained: {listed(trained)}", "frozen", None, share),
            point(name, context.first_x or 0, start, "before"),
            point(name, context.last_x, level, "after"),
        ],
        open_questions=["Were pretrained weights loaded into the frozen part?"],
    )
