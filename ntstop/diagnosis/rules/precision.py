"""What half precision does to a run: a loss scale that falls to its floor, and updates that are lost in rounding."""

from __future__ import annotations

from collections import deque
from typing import Final

import numpy as np

from ntstop_probe import wire

from ..catalogue import kind
from ..context import Context, LayerSample, StepBlock
from ..detectors.gradflow import numbers
from ..detectors.ratios import RISEN, SPARSE, WAIT, follow
from ..detectors.scale import Fall, ScaleWatch
from ..evidence import point
from ..finding import Claim, Evidence, Finding, Severity
from ..layer_names import is_weight, listed
from ..thresholds import threshold
from .base import Rule, rule

COLLAPSE = kind(
    "loss-scale-collapse",
    "numerics",
    "precision/batching/recompute/compilation",
    meaning="The loss scale falls without finding a level: every step overflows and is skipped, nothing is learned.",
    detector="Steps in a row that loss scaling skipped, after it had found its level once; or a scale that has sunk by "
    "many halvings under it. A start that skips several steps, and a halving now and then, are normal.",
    severity="critical while steps are skipped; warning for a scale that has sunk while steps are made.",
)
UNDERFLOW = kind(
    "update-underflow",
    "numerics",
    "precision/batching/recompute/compilation",
    meaning="Weights are kept in half precision and most updates are smaller than their rounding: they stay.",
    detector="Share of the weights that a step leaves exactly as they were, with gradients and a rate above zero, in "
    "two samples in a row.",
    severity="warning; info while the loss falls and a part of the weights moves.",
)
SKIPS = threshold(
    "loss-scale-collapse.skips",
    8,
    unit="steps",
    low=2,
    meaning="Steps in a row that are skipped, once the scale has found its level. Raised, it is told later.",
    source="AMP halves at each overflow: 8 in a row are a factor of 256, of which no gradient varies from step to step",
)
HALVINGS = threshold(
    "loss-scale-collapse.halvings",
    8,
    unit="halvings",
    low=1,
    meaning="Halvings of the loss scale under the highest level it had. Raised, it is told later.",
    source="AMP starts at 65,536 and doubles every 2,000 good steps; healthy levels of one run lie within 2^5",
)
UNCHANGED = threshold(
    "update-underflow.unchanged",
    0.9,
    high=1.0,
    meaning="Share of the weights that a step leaves as they were (median over the layers). Raised, only a worse "
    "loss of updates is told.",
    source="bfloat16 has 8 bits: an update under 0.2 % of a weight is lost; in float32 shares are under 0.4 even at a "
    "rate that is a thousand times too low (measured)",
)
RECOVERED: Final = 32
"""Steps in a row that are not skipped, after which a collapse is over."""
STUCK: Final = 0.97
"""Share of unchanged weights from which it weighs a warning, however the loss does."""
FALLEN: Final = 0.05
HALF: Final = {"bfloat16": 2.0**-9, "float16": 2.0**-12}
"""Dtypes of half precision, and the relative size under which an update is rounded away."""
START: Final = 16


@rule
class LossScaleRule(Rule):
    """loss-scale-collapse."""

    ALIKE = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._skips = context.value(SKIPS)
        self._halvings = context.value(HALVINGS)
        self._watch = ScaleWatch()
        self._finding: Finding | None = None

    def resumed(self) -> None:
        if self._finding is not None:
            self._finding.resolve(self.context.last_x)
            self._finding = None
        self._watch = ScaleWatch()

    def steps(self, block: StepBlock) -> None:
        if not block.scaled and block.skipped is None:
            return
        watch, finding = self._watch, self._finding
        watch.add(block.x, block.loss_scale, block.skipped)
        endless, sunk = watch.endless(self._skips), watch.sunk(self._halvings)
        if finding is not None:
            if not endless and not sunk and watch.good >= RECOVERED:
                finding.resolve(self.context.last_x, "warning")
                self._finding = None
            else:
                finding.last_step = self.context.last_x
                if watch.good >= RECOVERED:
                    # Steps are made again, at a scale that lies far under what it was.
                    finding.severity = "warning"
                if endless and watch.fall is not None:
                    finding.severity = "critical"
                    finding.claim.symptom = _collapse_symptom(watch.fall, watch.last)
            self.context.book.changed()
            return
        if endless and watch.fall is not None:
            self._open(_collapse_claim(watch.fall, watch.last, block), "critical", watch.fall.first_x)
        elif sunk and watch.peak is not None and watch.last is not None:
            self._open(_sunk_claim(watch.peak, watch.last), "warning", watch.last[0])

    def _open(self, claim: Claim, severity: Severity, first_x: int) -> None:
        self._finding = self.context.open(
            COLLAPSE.name,
            claim,
            severity=severity,
            area=COLLAPSE.area,
            failure_mode="optimization",
            where="loss_scale",
            first_x=first_x,
            last_x=self.context.last_x,
        )


@rule
class UnderflowRule(Rule):
    """update-underflow: half-precision weights that the optimizer's steps leave as they are."""

    ALIKE = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._unchanged = context.value(UNCHANGED)
        self._schema: wire.Schema | None = None
        self._half: list[int] = []
        """Layers in half precision."""
        self._samples: deque[tuple[int, float, float | None, float]] = deque(maxlen=2)
        """Step, median share of unchanged weights, median update ratio, and rate of the newest samples."""
        self._waiting: deque[LayerSample] = deque(maxlen=16)
        self._rate: float | None = None
        self._start: list[float] = []
        self._level: float | None = None
        self._finding: Finding | None = None

    def schema(self, schema: wire.Schema) -> None:
        self._schema = schema
        pairs = zip(schema.names, schema.dtypes, strict=False)
        self._half = [index for index, (name, dtype) in enumerate(pairs) if dtype in HALF and is_weight(name)]
        self._samples.clear()
        self._waiting.clear()

    def resumed(self) -> None:
        self._samples.clear()
        self._waiting.clear()

    def layers(self, sample: LayerSample) -> None:
        if sample.schema is not self._schema:
            self.schema(sample.schema)
        if self._half and "unchanged" in sample.columns:
            self._waiting.append(sample)

    def steps(self, block: StepBlock) -> None:
        if not self._half:
            return
        if len(block.losses) == 1 and (losses := block.losses.array(block.losses.names[0])) is not None:
            if len(self._start) < START:
                self._start += losses[: START - len(self._start)].tolist()
            self._level = follow(self._level, losses)
        rates = [rate for rate in block.rate or () if rate is not None]
        while self._waiting and self._waiting[0].ordinal < block.ordinal + block.count:
            self._take(self._waiting.popleft(), rates[0] if rates else self._rate)
        if rates:
            self._rate = rates[-1]
        self._judge()

    def _take(self, sample: LayerSample, rate: float | None) -> None:
        size = len(sample.schema.names)
        unchanged = numbers(sample.columns["unchanged"], size)[self._half]
        grads = numbers(sample.columns.get("grad_norm"), size)[self._half]
        zeros = numbers(sample.columns.get("grad_zero"), size)[self._half]
        ratios = numbers(sample.columns.get("update_ratio"), size)[self._half]
        # A layer without a gradient, or with a sparse one, is not meant to move as a whole.
        asked = np.isfinite(unchanged) & (grads > 0.0) & ~(zeros >= SPARSE)
        if not asked.any() or rate is None or rate <= 0.0:
            return
        share, ratio = float(np.median(unchanged[asked])), ratios[asked]
        if share < self._unchanged:
            self._samples.clear()
            if self._finding is not None:
                self._finding.resolve(sample.x, "info")
                self._finding = None
                self.context.book.changed()
            return
        self._samples.append((sample.x, share, float(np.nanmedian(ratio)) if np.isfinite(ratio).any() else None, rate))

    def _judge(self) -> None:
        samples, schema = list(self._samples), self._schema
        if len(samples) < 2 or schema is None or self.context.last_x < samples[0][0] + WAIT:
            return
        rate = self._rate
        if rate is not None and any(rate > RISEN * known for _, _, _, known in samples):
            return
        if self._finding is not None:
            self._finding.last_step = max(self._finding.last_step, samples[-1][0])
            return
        start = float(np.mean(self._start)) if self._start else None
        falls = start is not None and self._level is not None and self._level < (1.0 - FALLEN) * start
        stuck = min(share for _, share, _, _ in samples) >= STUCK
        self._finding = self.context.open(
            UNDERFLOW.name,
            _underflow_claim(samples, schema, self._half),
            severity="warning" if stuck or not falls else "info",
            area=UNDERFLOW.area,
            failure_mode="optimization",
            where=schema.names[self._half[0]],
            first_x=samples[0][0],
            last_x=samples[-1][0],
        )


def _collapse_symptom(fall: Fall, last: tuple[int, float] | None) -> str:
    scale = "" if last is None else f"; the loss scale is {last[1]:.3g}"
    return f"{fall.skipped:,} steps in a row were skipped, from step {fall.first_x:,} on{scale}"


def _collapse_claim(fall: Fall, last: tuple[int, float] | None, block: StepBlock) -> Claim:
    finite = block.losses.finite
    before = [] if fall.level is None else [Evidence(f"before: loss scale {fall.level:,.0f}", "loss_scale",
                                                     fall.first_x, fall.level)]  # fmt: skip
    return Claim(
        symptom=_collapse_symptom(fall, last),
        hypothesis=(
            "The loss stays finite and the gradient does not, at any scale: an operation whose gradient is 0/0 or "
            "infinite (a norm or a root at 0, a logarithm at 0), not a lack of range."
            if finite
            else "The loss itself is not finite in these steps: an overflow in the forward pass, or weights that are "
            "NaN already."
        ),
        fix=f"Run the batch of step {fall.first_x:,} once under torch.autograd.set_detect_anomaly(True) and give the "
        "operation it names an epsilon (sqrt(x + 1e-12), say); a smaller init_scale only delays it.",
        confidence="high that no step is made: each was skipped. Medium on the cause: anomaly detection would name it.",
        evidence=[
            *before,
            *(point("loss_scale", x, scale, "at") for x, scale in fall.readings[:4]),
            Evidence(f"skipped: every step from {fall.first_x:,} to {fall.last_x:,}", "skipped", fall.last_x,
                     float(fall.skipped), "steps"),
        ],
        open_questions=[f"What changed in the data or the loss at step {fall.first_x:,}?"],
    )  # fmt: skip


def _sunk_claim(peak: tuple[int, float], last: tuple[int, float]) -> Claim:
    return Claim(
        symptom=f"the loss scale has sunk from {peak[1]:,.0f} (step {peak[0]:,}) to {last[1]:.4g} (step {last[0]:,})",
        hypothesis="Gradients grow, or overflow again and again: small ones are lost below the range of float16.",
        fix="Clip at 1.0 after unscale_, look at the layer with the largest gradient, or use bfloat16, which has the "
        "range of float32 and needs no scale.",
        confidence="high: the scale is read from the scaler. Low on the cause: the gradient norms would tell.",
        evidence=[point("loss_scale", *peak, "before"), point("loss_scale", *last, "at")],
        open_questions=["Does the gradient norm grow as the scale falls?"],
    )


def _underflow_claim(
    samples: list[tuple[int, float, float | None, float]], schema: wire.Schema, half: list[int]
) -> Claim:
    x, share, ratio, rate = samples[-1]
    dtype = schema.dtypes[half[0]]
    step = HALF[dtype]
    needed = min(1.0, rate * step / max(ratio or step, 1e-9))
    names = [schema.names[index] for index in half]
    evidence = [
        Evidence(
            f"{known:.1%} of the weights unchanged by step {at:,}, at a rate of {used:.3g}", "unchanged", at, known
        )
        for at, known, _, used in samples
    ]
    if ratio is not None:
        evidence.append(
            Evidence(
                f"update / weight {ratio:.2g}; {dtype} rounds away what is under {step:.2g}", "update_ratio", x, ratio
            )
        )
    return Claim(
        symptom=f"{share:.1%} of the {dtype} weights are not changed by a step (step {x:,}, rate {rate:.3g})",
        hypothesis=f"The updates are smaller than half the distance between two {dtype} numbers and are rounded away.",
        fix="Keep master weights in float32 and compute in half precision under autocast, or use an optimizer with "
        f"stochastic rounding or compensated sums; otherwise a rate of {needed:.2g} would be needed.",
        confidence="high that they do not move: compared bit by bit. An optimizer that keeps what is rounded away "
        "(Kahan) would change what it means.",
        evidence=[*evidence, Evidence(f"{dtype}: {listed(names)}", "dtype", None, float(len(names)), "layers")],
        open_questions=["Does the optimizer keep float32 copies or compensation buffers?"],
    )
