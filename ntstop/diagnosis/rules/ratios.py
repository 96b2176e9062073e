"""How far each step moves the weights: a share of them that is far too much, or next to nothing."""

from __future__ import annotations

import math
from collections import deque
from statistics import median
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ntstop_probe import wire

from ..catalogue import kind
from ..context import Context, LayerSample, StepBlock
from ..detectors.ratios import APART, RatioBand, Ratios, follow, summarize
from ..finding import Claim, Evidence, Finding, Severity
from ..layer_names import is_adapter, is_weight
from ..thresholds import threshold
from .base import Rule, rule

HIGH = kind(
    "update-ratio-high",
    "optimization",
    "update/memory/step profile",
    meaning="Each step rewrites a large share of the weights: what was learned (or loaded) is lost in a few steps.",
    detector="Norm of the update over norm of the weight, the median layer of a sample, in two samples in a row; or "
    f"one layer alone, {APART:g} times the median, when the loss was thrown off as well. Biases, layers that began at "
    "zero and sparse gradients are left out.",
    severity="warning; with the divergence that follows from it, as heavy as that.",
)
LOW = kind(
    "update-ratio-low",
    "optimization",
    "update/memory/step profile",
    meaning="The steps are so small against the weights that nothing can be learned in the length of a run; also a "
    "clip that is applied to gradients that still carry the loss scale.",
    detector="The same ratio under its band, in two samples in a row, at a rate that is neither in its warm-up nor at "
    "the end of its schedule; the clip coefficient against the loss scale.",
    severity="warning; info while the loss falls all the same.",
)
LEVEL_HIGH = threshold(
    "update-ratio-high.ratio",
    0.15,
    low=1e-3,
    meaning="Share of the weights that a step moves, as the geometric mean of two samples. Raised, only larger steps "
    "are told.",
    source="healthy runs lie at 1e-3 to 1e-2, in their first steps at up to 0.05; Adam at ten times its rate at 0.17",
)
LEVEL_HELD = threshold(
    "update-ratio-high.held-ratio",
    0.05,
    low=1e-3,
    meaning="Share of the weights that a step moves, in three samples in a row after the first 30 steps. Raised, "
    "only larger steps are told.",
    source="after 30 steps healthy runs have come down to 0.01 (measured on small networks with Adam and SGD)",
)
LEVEL_LOW = threshold(
    "update-ratio-low.ratio",
    1e-5,
    high=1e-2,
    meaning="Share of the weights that a step moves, under which 10,000 steps in one direction move 10 % of them. "
    "Raised, larger steps are told too.",
    source="healthy runs lie at 1e-3 to 1e-2, fine-tuning at 1e-5 and above",
)
HEALTHY: Final = 1e-3
"""Where a ratio is brought by the rate that is proposed."""
FALLEN: Final = 0.02
"""A loss that has fallen by this share of its start learns all the same."""
THROWN_OFF: Final = 1.5
"""Times its start that the loss of a block came to: what it had learned (or loaded) was lost, also if it came back."""
EARLY, FEW = 256, 4
"""In so many first steps, so many points in a row count."""
START: Final = 16
"""Losses whose mean is the start."""
ADAPTERS: Final = 10.0
"""Times the lower bound where adapters alone are trained: they are small, begin at nothing, and must move further."""
PATIENCE: Final = 3
"""Samples in a row within the band before it is over."""
CLIPPED: Final = 16
"""Steps in a row with a clip coefficient of next to nothing."""
TINY: Final = 0.01
"""A clip coefficient under this takes away 99 % of the gradient."""
SCALED: Final = 1024.0
"""Loss scale from which the clip coefficient is compared with it; AMP starts at 65,536."""


@rule
class UpdateRatioRule(Rule):
    """update-ratio-high and -low, from the samples that compare the weights before and after a step."""

    ALIKE = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._low = context.value(LEVEL_LOW)
        self._band = RatioBand(context.value(LEVEL_HIGH), context.value(LEVEL_HELD), self._low)
        self._schema: wire.Schema | None = None
        self._weights: list[int] = []
        self._empty: NDArray[np.bool_] = np.zeros(0, np.bool_)
        """Layers that were seen with nothing but zeros."""
        self._waiting: deque[LayerSample] = deque(maxlen=16)
        """Samples of steps that are not told yet."""
        self._peak = 0.0
        self._rate: float | None = None
        self._start: list[float] = []
        self._level: float | None = None
        self._worst = 0.0
        """Of the mean losses of a block, and in the first steps of a few points."""
        self._seen = 0
        self._findings: dict[str, Finding] = {}
        self._missed: dict[str, int] = {}

    def schema(self, schema: wire.Schema) -> None:
        self._schema = schema
        self._weights = [index for index, name in enumerate(schema.names) if is_weight(name)]
        self._empty = np.zeros(len(schema.names), np.bool_)
        self._waiting.clear()
        trained = [name for name, frozen in zip(schema.names, schema.frozen, strict=False) if not frozen]
        adapters = bool(trained) and all(map(is_adapter, trained))
        self._low = self.context.value(LEVEL_LOW) * (ADAPTERS if adapters else 1.0)
        self._band = RatioBand(self.context.value(LEVEL_HIGH), self.context.value(LEVEL_HELD), self._low)

    def resumed(self) -> None:
        self._waiting.clear()
        self._band.samples.clear()

    def layers(self, sample: LayerSample) -> None:
        if sample.schema is not self._schema:
            self.schema(sample.schema)
        norms = sample.columns.get("param_norm")
        if norms is not None:
            self._empty |= np.array([norm == 0.0 for norm in norms])
        if "update_ratio" in sample.columns:
            self._waiting.append(sample)

    def steps(self, block: StepBlock) -> None:
        self._follow(block)
        fresh = False
        while self._waiting and self._waiting[0].ordinal < block.ordinal + block.count:
            sample = self._waiting.popleft()
            rates = block.rate
            at = min(max(sample.ordinal - block.ordinal, 0), block.count - 1)
            rate = self._rate if rates is None or rates[at] is None else rates[at]
            columns = sample.columns
            ratios = summarize(
                sample.x, sample.schema.names, self._weights, columns["update_ratio"], columns.get("grad_zero"),
                columns.get("grad_norm"), self._empty, rate,
            )  # fmt: skip
            if ratios is not None:
                self._band.add(ratios)
                fresh = True
        if self._band.samples:
            self._judge(fresh)

    def _follow(self, block: StepBlock) -> None:
        """The rate, and where the loss began and is."""
        if block.lrs:
            rates = block.rates
            known = [rate for rate in block.rate or () if rate is not None] if rates is None else rates
            if len(known):
                self._peak = max(self._peak, float(max(known)))
                self._rate = float(known[-1])
        if len(block.losses) != 1:
            return
        losses = block.losses.array(block.losses.names[0])
        if losses is None:
            return
        if len(self._start) < START:
            self._start += losses[: START - len(self._start)].tolist()
        self._level = follow(self._level, losses)
        if self._seen < EARLY and len(losses) >= FEW:
            self._worst = max(self._worst, float(np.convolve(losses, np.full(FEW, 1 / FEW), "valid").max()))
        self._worst = max(self._worst, float(losses.mean()))
        self._seen += len(losses)

    def _judge(self, fresh: bool) -> None:
        samples = self._band.samples
        flat = self._level is None or not self._start or self._level > (1.0 - FALLEN) * _began(self._start)
        if fresh:
            above = self._band.above()
            thrown_off = self._worst > THROWN_OFF * _began(self._start) if self._start else True
            alone = thrown_off and bool(self._start) and self._band.alone() is not None
            self._keep(
                "high", above or alone, "warning" if above or flat or thrown_off else "info", alone and not above
            )
        low = self._band.below(self.context.last_x, self._rate, self._peak)
        if low or (fresh and samples[-1].median >= 2 * self._low):
            self._keep("low", low, "warning" if flat else "info")

    def _keep(self, side: str, is_so: bool, severity: Severity, alone: bool = False) -> None:
        context, finding = self.context, self._findings.get(side)
        samples = list(self._band.samples)
        if not is_so:
            self._missed[side] = self._missed.get(side, 0) + 1
            if finding is not None and self._missed[side] >= PATIENCE:
                # A run that was thrown off by it at its start bears the damage still.
                finding.resolve(samples[-1].x, severity)
                del self._findings[side]
                context.book.changed()
            return
        self._missed[side] = 0
        if finding is not None:
            finding.last_step, finding.severity = max(finding.last_step, samples[-1].x), severity
            context.book.changed()
            return
        if side == "low" and any(known.where == WHERE_CLIP for known in context.book.find(LOW.name, context.writer)):
            return
        adapters = self._low > context.value(LEVEL_LOW)
        known = HIGH if side == "high" else LOW
        if alone:
            claim = _alone_claim(samples[-2:], _began(self._start), self._worst)
        else:
            claim = _high_claim(samples, self._rate) if side == "high" else _low_claim(samples, self._rate, adapters)
        self._findings[side] = context.open(
            known.name,
            claim,
            severity=severity,
            area=known.area,
            failure_mode="optimization",
            where=samples[-1].high[0] if side == "high" else samples[-1].low[0],
            first_x=samples[max(0, len(samples) - 2)].x,
            last_x=samples[-1].x,
        )


def _began(losses: list[float]) -> float:
    """Where the loss began: the first one alone where the next are worse, as a rate that is too high throws it off."""
    return min(float(np.mean(losses)), losses[0])


WHERE_CLIP: Final = "clip"


@rule
class ClipBeforeUnscaleRule(Rule):
    """update-ratio-low, where "clip": gradients are clipped while they still carry the loss scale."""

    ALIKE = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._run: deque[tuple[int, float, float]] = deque(maxlen=CLIPPED)
        self._first_x = 0
        self._finding: Finding | None = None

    def resumed(self) -> None:
        self._run.clear()

    def steps(self, block: StepBlock) -> None:
        if not block.scaled:
            return
        clips, scales = block.clip, block.loss_scale
        if clips is None or scales is None:
            return
        if not self._run and self._finding is None and min(filter(None, clips), default=1.0) >= TINY:
            return
        for x, clip, scale in zip(block.x, clips, scales, strict=True):
            if clip is None or scale is None or not math.isfinite(clip):
                continue
            if scale >= SCALED and clip < TINY and 0.01 <= clip * scale <= 1000.0:
                self._first_x = self._first_x if self._run else x
                self._run.append((x, clip, scale))
                continue
            if self._finding is not None and clip >= 10 * TINY:
                self._finding.resolve(x, "info")
                self._finding = None
                self.context.book.changed()
            self._run.clear()
        if len(self._run) == CLIPPED:
            self._tell()

    def _tell(self) -> None:
        if self._finding is not None:
            self._finding.last_step = self._run[-1][0]
            return
        self._finding = self.context.open(
            LOW.name,
            _clip_claim(list(self._run), self._first_x),
            severity="warning",
            area="precision/batching/recompute/compilation",
            failure_mode="optimization",
            where=WHERE_CLIP,
            first_x=self._first_x,
            last_x=self._run[-1][0],
        )


def _samples_evidence(samples: list[Ratios]) -> list[Evidence]:
    items = []
    for one in samples:
        rate = "" if one.rate is None else f", at a rate of {one.rate:.3g}"
        text = f"update / weight {one.median:.2g} in the median of {one.layers} layers at step {one.x:,}{rate}"
        items.append(Evidence(text, "update_ratio", one.x, one.median))
    name, value = samples[-1].high
    items.append(Evidence(f"highest {value:.2g} in {name}", "update_ratio", samples[-1].x, value))
    name, value = samples[-1].low
    items.append(Evidence(f"lowest {value:.2g} in {name}", "update_ratio", samples[-1].x, value))
    return items


def _high_claim(samples: list[Ratios], rate: float | None) -> Claim:
    worst = max(samples, key=lambda one: one.median)
    lower = "" if rate is None else f": try {rate * max(1e-3, 0.02 / worst.median):.2g}"
    return Claim(
        symptom=f"one step moves {worst.median:.0%} of the weights (median layer, step {worst.x:,}); usual: 0.1 to 1 %",
        hypothesis="The learning rate is far too high for this model and optimizer"
        + ("" if rate is None else f" ({rate:.3g})")
        + ": one for adapters or for SGD, an extra factor, or no warm-up.",
        fix=f"Lower the rate{lower}; begin with a warm-up of a few hundred steps, from the weights before this run.",
        confidence="high that the steps are this large: measured on the weights. Medium that it harms: a loss that "
        "falls steadily would change it.",
        evidence=_samples_evidence(samples),
        open_questions=["Is the rate multiplied by the batch size or the number of ranks?"],
    )  # fmt: skip


def _alone_claim(samples: list[Ratios], began: float, worst: float) -> Claim:
    """Of the one layer that all of these samples have as their highest."""
    one = max(samples, key=lambda one: one.high[1])
    name, share = one.high
    return Claim(
        symptom=f"one step moves {share:.0%} of {name} (step {one.x:,}), {share / one.median:.0f} times as much as of "
        f"the median layer; the loss rose from {began:.3g} to {worst:.3g}",
        hypothesis="The steps of this layer are far too large: a rate of its own that is too high (a factor for its "
        "width that multiplies where it should divide, a group for a new head), or weights that begin far too small.",
        fix=f"Print the rate of each parameter group, and lower that of {name}: try {0.02 / share:.1g} of it. Begin "
        "anew, since the other layers have followed it.",
        confidence="high that this layer alone takes such steps: measured on the weights. Medium that the loss rose "
        "because of it: both in the same steps.",
        evidence=[
            *_samples_evidence(samples),
            *(Evidence(f"{known:.2g} in {known_name} at step {at:,}", "update_ratio", at, known)
              for at, (known_name, known) in ((first.x, first.high) for first in samples[:-1])),
        ],
        open_questions=["Which rate has its group, and which have the others?"],
    )  # fmt: skip


def _low_claim(samples: list[Ratios], rate: float | None, adapters: bool) -> Claim:
    last = samples[-1]
    higher = "" if rate is None else f": try {rate * min(1000.0, HEALTHY / max(last.median, 1e-12)):.2g}"
    cause = (
        "Adapters are trained at the rate of a full fine-tune; they need ten times as much and more (1e-4 to 1e-3)."
        if adapters
        else "The rate is far too low for this optimizer, or the gradients are scaled down on their way (a clip that "
        "is too tight or applied to scaled gradients, a mean taken twice, a loss divided once too often)."
    )
    return Claim(
        symptom=f"one step moves {last.median:.1e} of the weights (median layer, step {last.x:,}); usual: 1e-3 to 1e-2",
        hypothesis=cause,
        fix=f"Raise the rate{higher}, and see that the ratio comes to 1e-3.",
        confidence="high that the steps are this small: measured on the weights. Medium on the cause.",
        evidence=_samples_evidence(samples),
        open_questions=["Is this a schedule that has not begun to rise?"] if rate is None else [],
    )  # fmt: skip


def _clip_claim(run: list[tuple[int, float, float]], first_x: int) -> Claim:
    x, clip, scale = run[-1]
    middle = median(known for _, known, _ in run)
    return Claim(
        symptom=f"clipping leaves {middle:.1e} of the gradient, about 1 / loss scale ({scale:,.0f}): it comes before "
        "unscaling",
        hypothesis="clip_grad_norm_ sees gradients that are still multiplied by the loss scale, so that it always "
        "clips; then unscale_ divides what is left by the scale again.",
        fix="Call scaler.unscale_(optimizer) before clip_grad_norm_, then scaler.step(optimizer).",
        confidence=f"medium: coefficient and scale fit in {len(run)} steps in a row. True gradient norms of some "
        "hundred times the limit would look alike; one that halves when the scale doubles would make it high.",
        evidence=[
            Evidence(f"clip coefficient {clip:.2e} at a loss scale of {scale:,.0f}, step {x:,}", "clip", x, clip),
            Evidence(f"coefficient × scale = {clip * scale:.3g}: limit over true norm", "clip", x, clip * scale,
                     basis="estimated"),
            Evidence(f"since step {first_x:,}", "clip", first_x),
        ],
        open_questions=["Does unscale_ come before the clipping?"],
    )  # fmt: skip
