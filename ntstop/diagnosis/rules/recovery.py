"""Going on after a stop: did it go on where it stopped, as good as it was, and would it again?"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median
from typing import Final

import numpy as np

from ntstop_probe import wire

from ..block import Floats
from ..catalogue import Area, kind
from ..context import Context, StepBlock
from ..detectors.trail import Trail
from ..evidence import point
from ..finding import Claim, Evidence, Finding, Severity
from ..thresholds import threshold
from .base import Rule, rule

AREA: Final[Area] = "checkpoint/recovery"
DISCONTINUITY = kind(
    "resume-discontinuity",
    "recovery",
    AREA,
    meaning="After a resume the loss is worse than it was at that step before: something was not restored.",
    detector="The median of the first steps after a resume (another attempt, or a checkpoint that is loaded in the "
    "middle) against the level of the curve at the step that it goes on from.",
    severity="warning.",
)
REWIND = kind(
    "step-rewind",
    "recovery",
    AREA,
    meaning="A resume goes back: steps that were made are made again.",
    detector="The first step of the new attempt against the last of the one before and against the checkpoints seen; "
    "where steps have no numbers, a loss that is back at its start.",
    severity="info when it goes on from the newest checkpoint; else warning.",
)
STALE = kind(
    "checkpoint-stale",
    "recovery",
    AREA,
    meaning="Checkpoints used to be written and are not any more: a crash would cost all steps since the last one.",
    detector="Steps since the newest checkpoint against the longest interval so far.",
    severity="warning; info where they were never regular (the best model only).",
)
JUMP = threshold(
    "resume-discontinuity.jump",
    0.1,
    unit="of the descent",
    low=0.01,
    high=10.0,
    meaning="Share of the descent so far that must be lost, beyond the noise. Raised, small losses are not told.",
    source="a new data order moves the loss by its noise only; a lost optimizer state costs more than a tenth",
)
INTERVALS = threshold(
    "checkpoint-stale.intervals",
    3.0,
    unit="intervals",
    low=1.5,
    meaning="How long the newest checkpoint may be ago, in units of the longest interval between two so far. Raised, "
    "it is told later.",
    source="one may fail or be skipped, and one may be on its way",
)
SIGMAS: Final = 5.0
FIRST: Final = 16
"""Steps after a resume whose median is taken."""
SCRATCH: Final = 0.6
"""Share of the descent that is lost when a run has begun anew."""
REGULAR: Final = 1.5
"""Longest interval over the median one; more is not a cadence."""
FEW: Final = 0.1
"""Share of the run that may be made again without a word when no checkpoint was seen."""


@dataclass(slots=True)
class _Resume:
    """What was known when the attempt before ended, and what came since."""

    last_x: int
    steps: int
    rate: float | None
    how: str
    first_x: int | None = None
    first_rate: float | None = None
    numbered: bool = True
    losses: list[float] = field(default_factory=list)


@rule
class ResumeRule(Rule):
    """resume-discontinuity and step-rewind."""

    ALIKE = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._jump = context.value(JUMP)
        self._trail = Trail()
        self._rate: float | None = None
        self._last_x = 0
        self._resume: _Resume | None = None
        self._checkpoints: deque[tuple[int, str]] = deque(maxlen=64)
        self._loaded = ""

    def event(self, event: wire.Event) -> None:
        if event.kind == "checkpoint":
            x = event.step if event.step is not None else self.context.x_of(event.ordinal or self.context.last_ordinal)
            self._checkpoints.append((x, event.text))
        elif event.kind == "load":
            self._loaded = event.text
            if self._resume is not None:
                self._resume.how = f"after loading {event.text}"
            elif self.context.steps:
                self._stopped(f"after loading {event.text}")

    def resumed(self) -> None:
        if self.context.steps and self._resume is None:
            self._stopped("in a new attempt")

    def _stopped(self, how: str) -> None:
        if self._trail.points:
            self._resume = _Resume(self._last_x, self.context.steps, self._rate, how)

    def steps(self, block: StepBlock) -> None:
        values = block.losses.filled("loss") if "loss" in block.losses else None
        finite = np.zeros(0) if values is None else values[np.isfinite(values)]
        resume = self._resume
        if resume is not None:
            self._take(resume, block, finite)
        else:
            if len(finite):
                self._trail.add(block.x[-1], finite)
            self._last_x = block.x[-1]
        if block.rates is not None:
            self._rate = float(block.rates[-1])
        elif block.rate is not None:
            self._rate = next((rate for rate in reversed(block.rate) if rate is not None), self._rate)

    def _take(self, resume: _Resume, block: StepBlock, finite: Floats) -> None:
        if resume.first_x is None:
            resume.first_x = block.x[0]
            # An ordinal begins at 0 in every process and says nothing of where the job goes on.
            resume.numbered = block.numbered or block.x[0] > 0
            resume.first_rate = None if block.rate is None else block.rate[0]
        resume.losses.extend(finite[: FIRST - len(resume.losses)].tolist())
        if len(resume.losses) >= FIRST:
            self._judge(resume)
            self._resume = None
            self._last_x = block.x[-1]

    def _judge(self, resume: _Resume) -> None:
        x = resume.first_x or 0
        start, last = self._trail.first, self._trail.around(resume.last_x)
        level = self._trail.around(x - self.context.stride if resume.numbered else resume.last_x)
        if start is None or last is None or level is None:
            return
        now, noise = median(resume.losses), self._trail.noise()
        descent = start.value - level
        again = resume.last_x - x + self.context.stride
        scratch = not resume.numbered and now - last > SCRATCH * (start.value - last) > SIGMAS * noise
        if scratch or (resume.numbered and again > self.context.stride):
            self._rewound(resume, x, again if resume.numbered else None, now)
        if resume.numbered:
            self._trail.rewind(x)
        if not scratch and now - level > max(SIGMAS * noise, self._jump * descent, 0.02 * abs(level)):
            self._discontinuity(resume, x, level, now)

    def _rewound(self, resume: _Resume, x: int, again: int | None, now: float) -> None:
        newest = max((at for at, _ in self._checkpoints if at <= resume.last_x), default=None)
        if again is None:
            severity: Severity = "warning"
        elif newest is not None:
            severity = "warning" if x + self.context.stride < newest else "info"
        else:
            severity = "warning" if again > FEW * max(resume.last_x, 1) and again > 1000 else "info"
        anew = again is None
        evidence = [
            Evidence(f"before: the last step was {resume.last_x:,}", "step", resume.last_x, float(resume.last_x)),
            Evidence(f"after: the first step is {x:,}", "step", x, float(x)),
            Evidence(f"newest checkpoint seen: step {newest:,}", "checkpoint", newest)
            if newest is not None
            else Evidence("no checkpoint was seen in it", "checkpoint", basis="unchecked"),
            point("loss", x, now, "after"),
        ]
        if self._loaded:
            evidence.append(Evidence(f"loaded: {self._loaded}", "load", x))
        claim = Claim(
            symptom=(
                f"the new attempt began anew: its loss, {now:.4g}, is back where the run started"
                if anew
                else f"the new attempt went on from step {x:,}: {again:,} steps are made again"
            ),
            hypothesis=(
                "No checkpoint was loaded: the path is empty or another one, or the flag to resume was not given."
                if anew
                else "It went on from an older checkpoint than the newest one."
                if severity == "warning"
                else "It went on from its newest checkpoint, as it should."
            ),
            fix=(
                "Let the job find its newest checkpoint by itself, and let it say which one it has loaded."
                if severity == "warning"
                else "Nothing, unless that is too much: write checkpoints more often."
            ),
            confidence=(
                "medium: the job does not number its steps; the loss tells. Weights that were loaded would change it."
                if anew
                else "high: the job's own step numbers."
            ),
            evidence=evidence,
            open_questions=["Which checkpoint was loaded?"] if not self._loaded else [],
        )
        self._open("step-rewind", claim, severity, x, "step")

    def _discontinuity(self, resume: _Resume, x: int, level: float, now: float) -> None:
        evidence = [
            point("loss", resume.last_x, level, "before"),
            point("loss", x, resume.losses[0], "at"),
            Evidence(f"after: the median of the first {len(resume.losses)} steps is {now:.4g}", "loss", x, now),
        ]
        rate, rate_now = resume.rate, resume.first_rate
        moved = rate is not None and rate_now is not None and not 0.67 < rate_now / max(rate, 1e-30) < 1.5
        if rate is not None and rate_now is not None:
            text = f"learning rate {rate:.3g} before, {rate_now:.3g} after"
            evidence.append(Evidence(text, "lr", x, rate_now))
        claim = Claim(
            symptom=f"{resume.how} the loss is {now:.4g}; it was {level:.4g} at that step",
            hypothesis=(
                "The scheduler was not restored: the rate is another one than before."
                if moved
                else "Not everything was restored: the optimizer's state, the scaler, averages of batch norm, or part "
                "of the weights (strict=False)."
            ),
            fix=(
                "Save and load scheduler.state_dict() with the optimizer's, or set last_epoch to the step."
                if moved
                else "Save and load model, optimizer, scheduler and scaler together; print the missing keys of "
                "load_state_dict; compare one fixed batch before saving and after loading."
            ),
            confidence="high that it is worse: beyond the noise and a tenth of the descent. Medium on what is missing: "
            "other data after the resume would change it.",
            evidence=evidence,
            open_questions=["Does the data order go on where it stopped?"],
        )
        self._open("resume-discontinuity", claim, "warning", x, "loss")

    def _open(self, name: str, claim: Claim, severity: Severity, x: int, where: str) -> None:
        self.context.open(name, claim, severity=severity, area=AREA, failure_mode="pipeline", where=where, first_x=x)


@rule
class StaleRule(Rule):
    """checkpoint-stale."""

    ALIKE = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._limit = context.value(INTERVALS)
        self._last: int | None = None
        self._path = ""
        self._intervals: deque[int] = deque(maxlen=16)
        self._finding: Finding | None = None

    def resumed(self) -> None:
        self._last = self.context.last_x if self._last is not None else None

    def event(self, event: wire.Event) -> None:
        if event.kind != "checkpoint":
            return
        x = event.step if event.step is not None else self.context.x_of(event.ordinal or self.context.last_ordinal)
        if self._last is not None and x - self._last > 2 * self.context.stride:
            self._intervals.append(x - self._last)
        self._last, self._path = x, event.text
        if self._finding is not None:
            self._finding.claim.symptom += f"; written again at step {x:,}"
            self._finding.resolve(x, "info")
            self._finding = None
            self.context.book.changed()

    def steps(self, block: StepBlock) -> None:
        if self._last is None or len(self._intervals) < 2 or self._finding is not None:
            return
        longest, since = max(self._intervals), block.x[-1] - self._last
        if since <= self._limit * longest:
            return
        usual = median(self._intervals)
        regular = longest <= REGULAR * usual
        claim = Claim(
            symptom=f"no checkpoint for {since:,} steps; there was one every {usual:,.0f}",
            hypothesis=(
                "Writing fails without a word (a full disk, an exception that is caught), or the condition for it is "
                "not met any more."
                if regular
                else "Only the best model is written, and it has not become better."
            ),
            fix="Look at the free space and the log of the last one; write one at a fixed interval beside the best.",
            confidence=(
                "medium: the checkpoints that the probe sees (torch.save and the common frameworks). Another way of "
                "writing them would change it."
            ),
            evidence=[
                Evidence(f"newest: step {self._last:,} {self._path}".rstrip(), "checkpoint", self._last),
                Evidence(f"longest interval before it: {longest:,} steps", "checkpoint", self._last, float(longest)),
                Evidence(f"now: step {block.x[-1]:,}, {since:,} steps without one", "step", block.x[-1], float(since)),
            ],
            open_questions=["How much room is left where they are written?"],
        )
        self._finding = self.context.open(
            "checkpoint-stale",
            claim,
            severity="warning" if regular else "info",
            area=AREA,
            failure_mode="pipeline",
            where="checkpoint",
            first_x=self._last + longest,
            last_x=block.x[-1],
        )
