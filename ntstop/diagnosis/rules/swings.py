"""A loss that swings about its level, further with every swing."""

from __future__ import annotations

import math

import numpy as np

from ..context import Context, StepBlock
from ..curve_kinds import AREA
from ..detectors import oscillation
from ..detectors.oscillation import Array, Swing, SwingDetector
from ..evidence import point
from ..finding import Claim, Evidence, Finding, Severity
from .base import Rule, rule

DIVERGENCE = "divergence"
BROKEN = ("nonfinite-loss", "nonfinite-grad", "params-not-updating")
"""Nothing new is told while one of these is open."""


@rule
class SwingRule(Rule):
    """Tells a divergence that shows in the swings of a loss before it shows in its level.

    Judges the only loss, or the first of several; those of a GAN swing against each other, so that it is a note.
    """

    ALIKE = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        value = context.value
        self._swings = SwingDetector(value(oscillation.SWING), value(oscillation.FIT))
        self._name = ""
        self._alone = True
        self._finding: Finding | None = None

    def resumed(self) -> None:
        self._swings.clear()
        self._end(self.context.last_x, "a new attempt began")

    def steps(self, block: StepBlock) -> None:
        if not block.losses:
            return
        self._name = self._name or ("loss" if "loss" in block.losses else block.losses.names[0])
        self._alone = self._alone and len(block.losses) == 1
        losses = block.losses.filled(self._name) if self._name in block.losses else None
        if losses is None:
            return
        rows = np.array([losses, block.x, _rates(block), _epochs(block)])
        finite = np.isfinite(losses)
        loss, x, rate, epoch = rows if finite.all() else rows[:, finite]
        for swing in self._swings.extend(x, loss, rate, epoch) if len(loss) else ():
            self._tell(swing)

    def _tell(self, swing: Swing) -> None:
        finding, context = self._finding, self.context
        if swing.over:
            self._end(swing.last_x, "it has calmed")
            return
        claim = _claim(self._name, swing, context)
        if finding is not None and finding.status == "open" and context.is_told(finding):
            finding.claim, finding.last_step = claim, swing.last_x
            context.book.changed()
            return
        if context.is_open(DIVERGENCE, *BROKEN):
            return
        severity: Severity = "warning" if self._alone else "info"
        self._finding = context.open(
            DIVERGENCE,
            claim,
            severity=severity,
            area=AREA,
            failure_mode="optimization",
            where=self._name,
            first_x=swing.first_x,
            last_x=swing.last_x,
        )

    def _end(self, x: int, why: str) -> None:
        finding, self._finding = self._finding, None
        if finding is not None and finding.status == "open":
            finding.resolve(x, "info")
            finding.claim.symptom += f"; {why} by step {x:,}"
            self.context.book.changed()


def _rates(block: StepBlock) -> Array:
    """The rate of each step, NaN where it is not known."""
    if block.rates is not None:
        return block.rates
    return np.array([math.nan if rate is None else rate for rate in block.rate or [None] * block.count])


def _epochs(block: StepBlock) -> Array:
    return np.full(block.count, math.nan) if block.epochs is None else block.epochs


def _claim(name: str, swing: Swing, context: Context) -> Claim:
    before, now = (_width(swing, size) for size in (swing.before, swing.now))
    peak = context.rate.peak
    lower = f"Lower the rate to a half of its {swing.rate:.3g}" if swing.rate else "Lower the learning rate to a half"
    return Claim(
        symptom=(
            f"{name} swings more and more about its level, {swing.level:.4g}: between {swing.low[1]:.4g} and "
            f"{swing.high[1]:.4g} by step {swing.last_x:,} ({now} now, {before} at step {swing.first_x:,}), "
            f"one swing in about {swing.period:,} steps"
        ),
        hypothesis=(
            "The learning rate is too high for the curvature here (past the edge of stability each step overshoots by "
            "more), the more so with much momentum; or something that steers the training overshoots, as a loss "
            "scale, an adaptive weight of a loss or a penalty does."
        ),
        fix=(
            f"{lower}, from a checkpoint before step {swing.first_x:,}; if it swings still, lower the momentum "
            "(beta1), and hold what adapts itself at a fixed value for a few hundred steps."
        ),
        confidence=(
            "high that it swings and that it grows: a wave over four periods and more, far beyond the noise of a "
            "point. Low on the cause: data that come in turns of this length, whose contrast grows, would change it."
        ),
        evidence=[
            point(name, *swing.low, "lowest of the last swings"),
            point(name, *swing.high, "highest of the last swings"),
            Evidence(
                f"amplitude {before} at step {swing.first_x:,}", name, swing.first_x, swing.before, basis="estimated"
            ),
            Evidence(f"amplitude {now} at step {swing.last_x:,}", name, swing.last_x, swing.now, basis="estimated"),
            Evidence(
                f"noise of a point about the wave: {_width(swing, swing.noise)}",
                name,
                swing.last_x,
                swing.noise,
                basis="estimated",
            ),
            *_rate_evidence(swing, peak),
        ],
        open_questions=[f"What comes again every {swing.period:,} steps or so: a task, a data shard, an evaluation?"],
    )


def _width(swing: Swing, size: float) -> str:
    """An amplitude: "±28 %" of a loss that is positive, else in its own unit."""
    return f"±{math.expm1(size):.0%}" if swing.logs else f"±{size:.3g}"


def _rate_evidence(swing: Swing, peak: float) -> list[Evidence]:
    if swing.rate is None:
        return []
    share = f", {swing.rate / peak:.0%} of its peak" if peak > 0 else ""
    return [Evidence(f"the learning rate is {swing.rate:.3g}{share}", "lr", swing.last_x, swing.rate)]
