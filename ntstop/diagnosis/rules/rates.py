"""The learning rate itself: a schedule that ended early, a rate that leaps, and a rate that is not the logged one."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from statistics import median
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ntstop_probe import wire

from ..catalogue import kind
from ..context import Context, StepBlock
from ..detectors.schedule import Leap, ScheduleWatch, Zero, known
from ..evidence import point
from ..finding import Claim, Evidence, Finding, Severity
from ..thresholds import threshold
from .base import Rule, rule

LR_ZERO = kind(
    "lr-zero",
    "optimization",
    "update/memory/step profile",
    meaning="Steps go on at a learning rate of zero, before the planned end of the run: they change nothing.",
    detector="Steps in a row whose largest rate of all groups is under a millionth of its peak.",
    severity="warning; not said where the rate reaches zero at the known end of the run.",
)
LR_JUMP = kind(
    "lr-jump",
    "optimization",
    "update/memory/step profile",
    meaning="The rate leaps up outside a warm-up or a restart, a resume starts the schedule anew, or the rate that "
    "the job logs is not the one its optimizer uses.",
    detector="The largest rate of all groups against the step before it, and against logged scalars that are rates.",
    severity="warning; info where it may be the end of a warm-up in stages, until the loss suffers from it.",
)
ZERO_STEPS = threshold(
    "lr-zero.steps",
    50,
    unit="steps",
    low=1,
    meaning="Steps at a rate of zero, and at least 2 % of the run so far. Raised, it is told later.",
    source="warm-ups start at zero for a step, linear decays end at it for one; 2 % keeps the end of long runs quiet",
)
LEAP = threshold(
    "lr-jump.factor",
    3.0,
    low=1.2,
    meaning="Times the rate of the step before that it leaps to. Raised, smaller leaps are not told.",
    source="linear warm-ups double at most after their first step; stepwise schedules change by up to 10, downwards",
)
LOGGED = threshold(
    "lr-jump.logged-factor",
    1.5,
    low=1.05,
    meaning="Factor between the logged and the real rate, either way. Raised, smaller differences are not told.",
    source="a logged rate may be a step or a rounding off; mistakes (a world size, a batch size) are factors of 2 up",
)
ZERO_SHARE: Final = 0.02
END: Final = 0.98
"""Share of the known length of the run after which a rate of zero is its planned end."""
WARM_UP: Final = 20
"""Points at the start in which the rate may do anything."""
RESUME: Final = 200
"""Points after a resume in which the rate is compared with what it was before."""
AFTERMATH: Final = 1000
AFTERMATH_SHARE: Final = 0.05
"""Steps, and share of the run so far, in which what begins may follow from a jump."""
LOGS: Final = 5
"""Logged rates in a row that differ by the same factor."""
KEPT: Final = 8
"""Newest blocks of steps in which a logged rate is looked up."""
NEAR: Final = 16
"""Steps around a logged one: rates are read in one of 16 steps when the probe runs short."""


@rule
class RateRule(Rule):
    """lr-zero and lr-jump, by the largest rate of all groups."""

    ALIKE = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._zero_steps = context.value(ZERO_STEPS)
        self._leap = context.value(LEAP)
        self._watch = ScheduleWatch(self._leap)
        self._zero: Finding | None = None
        self._before_resume: tuple[int, float] | None = None
        """Step and rate where the run was taken up again, while that is compared."""
        self._since_resume = 0
        self._jumps: list[Finding] = []
        """That explain what happens now."""

    def steps(self, block: StepBlock) -> None:
        rates = block.rates
        x = block.x
        if rates is None:
            read = block.rate
            if read is None:
                return
            x, rates = known(read, x)
        for leap in self._watch.add(x, rates):
            self._leapt(leap)
        if self._jumps:
            self._settle_jumps()
        if self._before_resume is not None:
            self._compare(x, rates)
        self._judge_zero()

    def resumed(self) -> None:
        watch = self._watch
        # A rate that still rises would look like a schedule that starts anew.
        if watch.last is not None and watch.points >= WARM_UP and self._leap * watch.last <= watch.peak:
            self._before_resume = (self.context.last_x, watch.last)
            self._since_resume = 0
            self._watch = ScheduleWatch(self._leap)
            self._watch.peak = watch.last

    def event(self, event: wire.Event) -> None:
        if event.kind == "load" and event.ordinal:
            self.resumed()

    def _judge_zero(self) -> None:
        zero, finding = self._watch.zero, self._zero
        if finding is not None:
            if zero is None:
                finding.resolve(self.context.last_x)
                self._zero = None
            elif finding.last_step != zero.last_x:
                finding.last_step = zero.last_x
                finding.claim.symptom = _zero_symptom(zero, self.context.stride)
            self.context.book.changed()
            return
        if zero is None or _steps(zero, self.context.stride) < max(self._zero_steps, ZERO_SHARE * self.context.steps):
            return
        total = self.context.total_steps
        if total is not None and zero.first_x >= END * total:
            return
        self._zero = self.context.open(
            LR_ZERO.name,
            _zero_claim(zero, self.context),
            severity="warning",
            area=LR_ZERO.area,
            failure_mode="optimization",
            where="lr",
            first_x=zero.first_x,
            last_x=zero.last_x,
        )

    def _leapt(self, leap: Leap) -> None:
        context = self.context
        if self._watch.points < WARM_UP or leap.restart or self._before_resume is not None:
            return
        # A leap off the first level of a run may be a warm-up in stages: then the loss does not mind.
        severity: Severity = "warning" if leap.settled else "info"
        self._jumps.append(
            context.open(
                LR_JUMP.name,
                _leap_claim(leap, self.context),
                severity=severity,
                area=LR_JUMP.area,
                failure_mode="optimization",
                where="lr",
                first_x=min(leap.x0 + context.stride, leap.x),
                last_x=leap.x,
            )
        )

    def _settle_jumps(self) -> None:
        """What begins long after a jump is not explained by it any more."""
        context = self.context
        age = max(AFTERMATH, AFTERMATH_SHARE * context.steps) * context.stride
        for finding in [finding for finding in self._jumps if context.last_x - finding.last_step > age]:
            finding.resolve(finding.last_step)
            self._jumps.remove(finding)
            context.book.changed()

    def _compare(self, x: Sequence[int], rates: NDArray[np.float64]) -> None:
        assert self._before_resume is not None
        at, before = self._before_resume
        self._since_resume += len(rates)
        over = np.flatnonzero(rates >= self._leap * before) if before > 0.0 else np.array([], np.int64)
        if len(over):
            # Without a global step a new process counts from 0: it is dated where the run was taken up.
            first = at + 1 if isinstance(x, range) and x[0] <= at else x[int(over[0])]
            self._jumps.append(
                self.context.open(
                    LR_JUMP.name,
                    _resume_claim(self.context, at, before, first, float(rates[over[0]])),
                    severity="warning",
                    area="checkpoint/recovery",
                    failure_mode="optimization",
                    where="resume",
                    first_x=first,
                )
            )
        if len(over) or self._since_resume >= RESUME:
            self._before_resume = None


@rule
class LoggedRateRule(Rule):
    """lr-jump, where "logged": the rate that the job logs is not the one that its optimizer uses."""

    ALIKE = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._factor = context.value(LOGGED)
        self._blocks: deque[StepBlock] = deque(maxlen=KEPT)
        self._waiting: deque[tuple[int, int | None, str, float]] = deque(maxlen=64)
        self._off: dict[str, list[tuple[int, float, float]]] = {}
        """By name: step, logged and real rate of the last ones that differ, in a row."""
        self._findings: dict[str, Finding] = {}

    def resumed(self) -> None:
        self._blocks.clear()
        self._waiting.clear()
        self._off.clear()

    def scalars(self, scalars: wire.Scalars) -> None:
        for name, value in scalars.values.items():
            if self.context.roles.of(name).role == "lr" and math.isfinite(value) and value > 0.0:
                self._waiting.append((scalars.ordinal, scalars.step, name, value))
        self._settle()

    def steps(self, block: StepBlock) -> None:
        self._blocks.append(block)
        if self._waiting:
            self._settle()

    def _settle(self) -> None:
        """Judge what was logged in steps that are told, with the steps around them."""
        while self._waiting:
            ordinal, step, name, value = self._waiting[0]
            if not self._blocks or ordinal + 1 > self.context.last_ordinal:
                return
            self._waiting.popleft()
            real = self._real(ordinal, value)
            if real is not None:
                self._judge(name, self.context.x_of(ordinal) if step is None else step, value, real)

    def _real(self, ordinal: int, value: float) -> float | None:
        """Of the rates of all groups near a step, the one that comes nearest to `value`; None: none was read."""
        rates: list[float] = []
        for block in self._blocks:
            first, last = block.ordinal, block.ordinal + block.count - 1
            if last < ordinal - NEAR or first > ordinal + NEAR:
                continue
            cut = slice(max(0, ordinal - NEAR - first), max(0, ordinal + NEAR - first) + 1)
            for column in block.lrs.values():
                rates += [rate for rate in column[cut] if rate is not None and 0.0 < rate < math.inf]
        return min(rates, key=lambda rate: abs(math.log(rate) - math.log(value)), default=None)

    def _judge(self, name: str, x: int, logged: float, real: float) -> None:
        off = self._off.setdefault(name, [])
        factor = real / logged
        if not 0.0 < factor < math.inf:
            return
        finding = self._findings.get(name)
        if 1 / self._factor < factor < self._factor:
            off.clear()
            if finding is not None:
                finding.resolve(x, "info")
                del self._findings[name]
                self.context.book.changed()
            return
        if off and not 0.8 < factor / (off[-1][2] / off[-1][1]) < 1.25:
            off.clear()
        off.append((x, logged, real))
        if finding is not None:
            finding.last_step = max(finding.last_step, x)
            del off[:-LOGS]
        elif len(off) >= LOGS:
            self._findings[name] = self.context.open(
                LR_JUMP.name,
                _logged_claim(name, off),
                severity="warning",
                area=LR_JUMP.area,
                failure_mode="optimization",
                where=name,
                first_x=off[0][0],
                last_x=x,
            )


def _steps(zero: Zero, stride: int) -> int:
    return (zero.last_x - zero.first_x) // stride + 1


def _zero_symptom(zero: Zero, stride: int) -> str:
    count = f"{_steps(zero, stride):,} steps"
    begun = f"the learning rate is 0 since step {zero.first_x:,}, and {count} were made with it"
    return begun if zero.peak > 0 else f"the learning rate has been 0 in all {count}"


def _read(context: Context) -> str:
    """How the rate is known."""
    return "the job has logged it" if context.is_log else "read from the optimizer's groups"


def _zero_claim(zero: Zero, context: Context) -> Claim:
    total = context.total_steps
    planned = "" if total is None else f"; the run is planned for {total:,} steps"
    if zero.peak > 0:
        hypothesis = (
            f"The schedule was built for about {zero.first_x:,} steps{planned}: a total that counts epochs, "
            "micro-batches or ranks otherwise, or a scheduler that is stepped more than once a step."
        )
        fix = (
            f"Give the scheduler the real number of optimizer steps (now it ends at {zero.first_x:,}), or let it end "
            f"at a tenth of the peak, {zero.peak / 10:.3g}; go on from a checkpoint near step {zero.first_x:,}."
        )
    else:
        hypothesis = (
            "A warm-up that is never stepped, a scheduler that is stepped once an epoch, or a factor that is rounded "
            "to 0 (an integer division)."
        )
        fix = "Print optimizer.param_groups[0]['lr'] after scheduler.step(); call scheduler.step() after each step."
    peak = [Evidence(f"its peak was {zero.peak:.3g}", "lr", zero.first_x, zero.peak)] if zero.peak > 0 else []
    return Claim(
        symptom=_zero_symptom(zero, context.stride),
        hypothesis=hypothesis,
        fix=fix,
        confidence=f"high: {_read(context)}. A second optimizer that is not seen would change it.",
        evidence=[*peak, point("lr", zero.first_x, 0.0, "at"), point("lr", zero.last_x, 0.0, "after")],
        open_questions=[] if total is not None else ["How many steps was this run meant to have?"],
    )


def _leap_claim(leap: Leap, context: Context) -> Claim:
    factor = leap.after / leap.before
    return Claim(
        symptom=f"the learning rate leapt from {leap.before:.3g} to {leap.after:.3g} (×{factor:.3g}) at step "
        f"{leap.x:,}",
        hypothesis="A schedule with a slip (a boundary, a factor that is applied twice), or a rate that was set by "
        f"hand. It is {leap.after / max(leap.peak, leap.before):.3g} times the highest rate before it.",
        fix=f"If it was not meant, keep {leap.before:.3g} from step {leap.x:,} on, from the checkpoint before it; if "
        f"it was, rise to {leap.after:.3g} over a few hundred steps.",
        confidence=f"high that it happened: {_read(context)}"
        + ("." if leap.settled else "; low that it is a mistake: it may be a warm-up in stages, if the loss stays."),
        evidence=[
            point("lr", leap.x0, leap.before, "before"),
            point("lr", leap.x, leap.after, "at"),
            Evidence(f"it had been {leap.before:.3g} since step {leap.level_x:,}", "lr", leap.level_x, leap.before),
        ],
    )


def _resume_claim(context: Context, at: int, before: float, x: int, after: float) -> Claim:
    return Claim(
        symptom=f"after the resume at step {at:,} the learning rate is {after:.3g} at step {x:,}; it was {before:.3g}",
        hypothesis="The scheduler was not loaded from the checkpoint, or was built anew after loading: its schedule "
        "started again from its beginning.",
        fix="Save and load scheduler.state_dict() beside the optimizer's, or pass last_epoch=step; then resume from "
        f"the same checkpoint, and see that the rate begins at {before:.3g}.",
        confidence=f"high that it rose: {_read(context)}. A new warm-up that was meant would change what it means.",
        evidence=[point("lr", at, before, "before"), point("lr", x, after, "after")],
        open_questions=["Is a new schedule after the resume intended?"],
    )


def _logged_claim(name: str, off: list[tuple[int, float, float]]) -> Claim:
    factor = median(real / logged for _, logged, real in off)
    _, logged, real = off[-1]
    text = f"{factor:.3g} times" if factor > 1 else f"1/{1 / factor:.3g} of"
    return Claim(
        symptom=f"the optimizer's learning rate is {text} the logged one: {name} {logged:.3g}, really {real:.3g}",
        hypothesis="The rate is scaled after it is logged (by the number of ranks, the batch size or the accumulation "
        "steps), or another optimizer's or another group's is logged.",
        fix=f"Log optimizer.param_groups[0]['lr'], and decide which of the two is meant: {logged:.3g} or {real:.3g}.",
        confidence=f"high: {len(off)} logged values in a row, none near the rate of any group within {NEAR} steps.",
        evidence=[
            Evidence(f"{name} {logged:.3g} beside {real:.3g} at step {x:,}", name, x, logged) for x, logged, real in off
        ],
        open_questions=[f"Is {name} meant to be the rate of this optimizer?"],
    )
