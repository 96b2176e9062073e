"""Gradients layer by layer: exactly zero, ever weaker toward the input, or far beyond what they were."""

from __future__ import annotations

from collections import deque
from typing import Final

import numpy as np

from ntstop_probe import wire

from ..catalogue import kind
from ..context import Context, LayerSample, StepBlock
from ..detectors.gradflow import Flags, GradientFlow, decades, numbers
from ..finding import Claim, Evidence, Finding, Severity
from ..layer_names import is_embedding, is_expert, is_weight, listed, module_of, sizes_of
from ..optimizers import adaptive
from ..thresholds import threshold
from .base import Rule, rule

DEAD = kind(
    "dead-layer",
    "optimization",
    "update/memory/step profile",
    meaning="Every element of the gradient of a layer is exactly 0, sample after sample: dead ReLUs, weights that all "
    "start at zero, a mask or a saturated activation after it.",
    detector="Gradient norms of exactly 0 in samples in a row, for a weight, while others have one or had.",
    severity="warning; critical when no layer has any gradient left; info for experts that no input is routed to.",
)
VANISHING = kind(
    "vanishing-gradients",
    "optimization",
    "update/memory/step profile",
    meaning="The gradient falls by orders of magnitude from the output to the input: the first layers hardly learn.",
    detector="Gradient norm over parameter norm by layer: its median in the last third of the layers against the "
    "first, and its correlation with the depth.",
    severity="warning; info under Adam and its like, which divide by the size of the gradient, unless it is below "
    "their epsilon.",
)
DEAD_SAMPLES = threshold(
    "dead-layer.samples",
    5,
    unit="samples",
    low=2,
    meaning="Samples in a row in which the gradient of a layer is exactly 0. Raised, it is told later.",
    source="LoRA's and zero-initialized residual branches have a zero gradient in the first step, not in the second; "
    "the probe looks at steps 0, 1, 2, 4 and 8",
)
FALL = threshold(
    "vanishing-gradients.decades",
    3.0,
    unit="decades",
    low=1.0,
    meaning="Powers of ten by which the gradient falls from the last third of the layers to the first. Raised, only "
    "steeper falls are told.",
    source="ten sigmoid layers lose 6, a residual network of 50 layers and a transformer less than 2 (measured)",
)
STEADY: Final = 0.8
"""Correlation of the logarithm with the depth: a profile, not two kinds of layers."""
FALL_SAMPLES: Final = 5
WEIGHTS: Final = 64
"""Fewest elements of a layer that takes part in the profile: scales and gates have gradients of their own kind."""
SETTLE: Final = 20
"""Steps before anything is said of the first samples."""
EPSILON: Final = 1e-8
"""What Adam adds to the size of the gradient, by default."""


class _LayerRule(Rule):
    """Follows the newest schema; `judge` is called between samples and steps."""

    ALIKE = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._schema: wire.Schema | None = None
        self._due = False

    def schema(self, schema: wire.Schema) -> None:
        self._schema = schema
        self._due = False
        self.restart(schema)

    def resumed(self) -> None:
        if self._schema is not None:
            self.schema(self._schema)

    def layers(self, sample: LayerSample) -> None:
        if sample.schema is not self._schema:
            self.schema(sample.schema)
        self.look(sample)
        self._due = True

    def steps(self, block: StepBlock) -> None:
        if self._due and self.context.steps >= SETTLE and self._schema is not None:
            self._due = False
            self.judge(self._schema)

    def restart(self, schema: wire.Schema) -> None:
        """Other layers than before."""

    def look(self, sample: LayerSample) -> None:
        """One more sample."""

    def judge(self, schema: wire.Schema) -> None:
        """The samples so far belong to steps that are known."""


@rule
class DeadLayerRule(_LayerRule):
    """dead-layer: one finding for all layers that are dead now, named by the deepest one, where the gradient ends.

    Steps whose loss is exactly 0 are left out: a margin that is kept, or a batch without a reward, has no gradient.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._least = context.value(DEAD_SAMPLES)
        self._flow = GradientFlow(0)
        self._norms: list[float | None] = []
        self._finding: Finding | None = None
        self._said: Flags | None = None
        """The layers of the finding."""
        self._waiting: deque[LayerSample] = deque(maxlen=16)
        """Samples of steps that are not told yet."""
        self._nothing: deque[int] = deque(maxlen=1024)
        """Ordinals of the newest steps whose loss was exactly 0."""

    def steps(self, block: StepBlock) -> None:
        self._nothing.extend(_nothing_to_learn(block))
        while self._waiting and self._waiting[0].ordinal < block.ordinal + block.count:
            sample = self._waiting.popleft()
            if sample.ordinal not in self._nothing:
                self._flow.add(sample.x, sample.columns.get("grad_norm"), sample.columns.get("param_norm"))
                self._norms = sample.columns.get("param_norm") or self._norms
        super().steps(block)

    def restart(self, schema: wire.Schema) -> None:
        self._waiting.clear()
        self._flow = GradientFlow(len(schema.names))
        if self._finding is not None:
            self._finding.resolve(self.context.last_x)
            self._finding = None
            self.context.book.changed()

    def look(self, sample: LayerSample) -> None:
        self._waiting.append(sample)

    def judge(self, schema: wire.Schema) -> None:
        flow, finding = self._flow, self._finding
        dead = flow.enough(flow.zero, self._least)
        dead &= np.array([is_weight(name) for name in schema.names], np.bool_)
        dead &= ~_empty_shards(schema, self._norms)
        if finding is not None and self._said is not None:
            if (flow.live[self._said] >= self._least).all():
                finding.resolve(flow.last_x)
                self._finding = None
            else:
                finding.last_step = max(finding.last_step, flow.last_x)
            self.context.book.changed()
            return
        if not dead.any():
            return
        self._said = dead
        where = _gradient_ends(schema, dead | (flow.zero >= self._least))
        experts = [is_expert(name) for name in schema.names]
        routed = bool(np.array(experts)[dead].all()) and bool(np.array(experts)[flow.live > 0].any())
        severity: Severity = "critical" if not (flow.live > 0).any() else "info" if routed else "warning"
        self._finding = self.context.open(
            DEAD.name,
            _dead_claim(schema, dead, flow, where, self._norms, alone=severity == "critical"),
            severity=severity,
            area=DEAD.area,
            failure_mode="optimization",
            where=where,
            first_x=int(flow.since[dead].min()),
            last_x=flow.last_x,
        )


@rule
class VanishingRule(_LayerRule):
    """vanishing-gradients: the profile over the depth, in several samples in a row."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._decades = context.value(FALL)
        self._deep: list[int] = []
        self._falls: deque[tuple[int, float]] = deque(maxlen=FALL_SAMPLES)
        self._since = 0
        """Step of the first sample in a row with a fall."""
        self._last: tuple[int, list[float], list[float]] | None = None
        self._finding: Finding | None = None

    def restart(self, schema: wire.Schema) -> None:
        sizes = sizes_of(schema) if schema.numel else [WEIGHTS] * len(schema.names)
        self._deep = [
            index
            for index, name in enumerate(schema.names)
            if is_weight(name) and not is_embedding(name) and sizes[index] >= WEIGHTS
        ]
        self._falls.clear()
        if self._finding is not None:
            self._finding.resolve(self.context.last_x)
            self._finding = None

    def look(self, sample: LayerSample) -> None:
        grads, norms = sample.columns.get("grad_norm"), sample.columns.get("param_norm")
        if grads is None or norms is None:
            return
        size = len(sample.schema.names)
        grad, norm = numbers(grads, size)[self._deep], numbers(norms, size)[self._deep]
        fall, steady = decades(grad, norm)
        if fall < self._decades or steady < STEADY:
            self._falls.clear()
            return
        self._since = self._since if self._falls else sample.x
        self._falls.append((sample.x, fall))
        self._last = sample.x, grad.tolist(), norm.tolist()

    def judge(self, schema: wire.Schema) -> None:
        finding = self._finding
        if not self._falls:
            if finding is not None:
                finding.resolve(self.context.last_x)
                self._finding = None
                self.context.book.changed()
            return
        if finding is not None:
            finding.last_step = max(finding.last_step, self._falls[-1][0])
            return
        if len(self._falls) < FALL_SAMPLES or self._last is None:
            return
        x, grads, norms = self._last
        sizes = [sizes_of(schema)[index] for index in self._deep]
        element = grads[0] / max(1, sizes[0]) ** 0.5
        adapts = adaptive(self.context.hello) and element > EPSILON
        names = [schema.names[index] for index in self._deep]
        self._finding = self.context.open(
            VANISHING.name,
            _vanishing_claim(names, grads, norms, list(self._falls), adapts=adapts),
            severity="info" if adapts else "warning",
            area=VANISHING.area,
            failure_mode="optimization",
            where=module_of(names[0]),
            first_x=self._since,
            last_x=x,
        )


def _nothing_to_learn(block: StepBlock) -> list[int]:
    """Ordinals of the steps all of whose losses are exactly 0."""
    if not block.losses:
        return []
    columns = [losses for name in block.losses if (losses := block.losses.filled(name)) is not None]
    worst = np.max(np.abs(columns), axis=0)
    return [] if worst.all() else (np.flatnonzero(worst == 0.0) + block.ordinal).tolist()


def _empty_shards(schema: wire.Schema, norms: list[float | None]) -> Flags:
    """Layers of which this rank has nothing: a shard without elements has norm 0, and so has its gradient."""
    pairs = zip(schema.shards, norms, strict=False)
    empty = [shards > 1 and norm == 0.0 for shards, norm in pairs]
    return np.array((empty + [False] * len(schema.names))[: len(schema.names)], np.bool_)


def _gradient_ends(schema: wire.Schema, zero: Flags) -> str:
    """The deepest module all of whose parameters have a zero gradient; else the deepest layer that has."""
    modules: dict[str, bool] = {}
    for name, flag in zip(schema.names, zero, strict=True):
        module = module_of(name)
        modules[module] = modules.get(module, True) and bool(flag)
    whole = [module for module, dead in modules.items() if dead]
    return whole[-1] if whole else module_of(schema.names[int(np.flatnonzero(zero)[-1])])


def _dead_claim(
    schema: wire.Schema, dead: Flags, flow: GradientFlow, where: str, norms: list[float | None], *, alone: bool
) -> Claim:
    names = [name for name, flag in zip(schema.names, dead, strict=True) if flag]
    known = [norms[index] for index in np.flatnonzero(dead) if index < len(norms)]
    empty = bool(known) and all(norm == 0.0 for norm in known)
    first = int(flow.since[dead].min())
    samples = int(flow.zero[dead].min())
    if empty:
        hypothesis = (
            "Their weights are all 0 as well: every unit of a layer is like the others, and no gradient gets past them."
        )
        fix = "Initialize the weights at random (the default of nn.Linear); only biases and last layers may start at 0."
    elif alone:
        hypothesis = "The loss does not depend on the parameters any more: a saturated output, a clamp, or a constant."
        fix = "Look at the last activations and at clamp() around the loss; go back to a checkpoint before it began."
    else:
        hypothesis = (
            f"The units after {where} never fire: their inputs are negative for every sample (ReLU), or a mask, a "
            "clamp or a saturated activation follows it."
        )
        fix = (
            f"Go back to a checkpoint before step {first:,}; lower the rate to a third or clip at 1.0, so that no "
            f"update throws the biases of {where} that far; LeakyReLU or GELU keep a gradient."
        )
    return Claim(
        symptom=f"the gradient of {len(names)} of {flow.size} layers is exactly 0 since step {first:,}; it ends at "
        f"{where}",
        hypothesis=hypothesis,
        fix=fix,
        confidence=f"high: exactly 0 in {samples} samples in a row. One sample with a gradient would change it.",
        evidence=[
            Evidence(f"gradient norm 0 in {samples} samples, steps {first:,} to {flow.last_x:,}: {listed(names)}",
                     "grad_norm", flow.last_x, 0.0),
            Evidence(f"layers with a gradient: {int((flow.live > 0).sum())} of {flow.size}", "grad_norm", flow.last_x,
                     float((flow.live > 0).sum()), "layers"),
        ],
        open_questions=[] if empty else [f"Which activation follows {where}, and what share of it is 0?"],
    )  # fmt: skip


def _vanishing_claim(
    names: list[str], grads: list[float], norms: list[float], falls: list[tuple[int, float]], *, adapts: bool
) -> Claim:
    x, fall = falls[-1]
    shown = sorted({0, len(names) // 2, len(names) - 1})
    ratios = [grad / norm if norm else float("nan") for grad, norm in zip(grads, norms, strict=True)]
    return Claim(
        symptom=f"the gradient falls by {fall:.1f} powers of ten from {names[-1]} to {names[0]}",
        hypothesis="Each layer passes on a fraction of what it gets: saturating activations (sigmoid, tanh), weights "
        "that are too small, or no residual path and no normalization.",
        fix="Use ReLU or GELU with He initialization, residual connections or a LayerNorm in each block."
        + (" Under this optimizer the steps are not smaller for it, only noisier." if adapts else ""),
        confidence="high: the same profile in "
        f"{len(falls)} samples. Layers whose order is not that of the computation would change it.",
        evidence=[
            *(
                Evidence(
                    f"gradient over weight {ratios[index]:.2g} in {names[index]} at step {x:,}",
                    "grad_norm",
                    x,
                    ratios[index],
                )
                for index in shown
            ),
            *(Evidence(f"{fall:.1f} decades at step {at:,}", "grad_norm", at, fall, "decades") for at, fall in falls),
        ],
        open_questions=["Is the order of the parameters that of the layers?"],
    )
