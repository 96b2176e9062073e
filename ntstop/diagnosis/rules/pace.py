"""Steps that became slower, and a compiler that never comes to an end."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ntstop_probe import wire

from ..catalogue import Area, kind
from ..context import Context, StepBlock
from ..crowd import Crowd
from ..detectors.pace import Pace
from ..detectors.slowdown import Slowdown, SlowdownDetector
from ..evidence import seconds
from ..finding import Claim, Evidence, Finding, Severity
from ..thresholds import threshold
from .base import Rule, rule

AREA: Final[Area] = "performance"
REGRESSION = kind(
    "step-time-regression",
    "input and compute",
    AREA,
    meaning="The steps have become slower and stay so.",
    detector="Windows of timed steps, evaluations, checkpoints and the first steps left out: a robust change point "
    "against the 64 windows before, then the shift of the mean. The same place of the epoch before is looked at.",
    severity="warning from 1.3 times on; info below, and where other processes hold or have taken the host's cores.",
)
STORM = kind(
    "recompile-storm",
    "input and compute",
    "precision/batching/recompute/compilation",
    meaning="torch.compile compiles the same functions again and again, long after the start.",
    detector="Its own counts of recompilations, and the seconds that they took, against the steps that were made.",
    severity="warning.",
)
SHIFT = threshold(
    "step-time-regression.shift",
    0.1,
    unit="of the step",
    low=0.02,
    meaning="Share of the step time by which the mean must have grown. Raised, small slowdowns are not told.",
    source="a tenth of the bill; published work on fail-slow clusters uses 1.1 too, after a change point",
)
RECOMPILES = threshold(
    "recompile-storm.recompiles",
    8,
    unit="recompilations",
    low=2,
    meaning="Recompilations after the first steps that make a storm. Raised, it is told later.",
    source="torch._dynamo's recompile_limit is 8 a function: it then gives up and runs it eagerly, and slowly",
)
WARNING: Final = 1.3
PHASE: Final = 0.5
"""Part of the loss of time that one phase must hold to be named."""
OUTSIDE: Final = "other"
"""What stands between the optimizer and the next batch."""
OUTSIDE_SIGMAS: Final = 3.0
"""It is a few long moments more than a level: its spread is wide, and six in a row of twice its level are no chance."""
GROWN: Final = 0.3
"""Share of the step that the phase alone must have grown by."""
WARM: Final = 8
"""Steps in which compiling is expected."""
CALM: Final = 120.0
"""Seconds without a recompilation after which it is over."""

FIXES = {
    "data": "Look at what the loader reads from: a cache that has run full, a disk or mount that others use, a shard "
    "with larger samples; more workers hide it.",
    "forward": "Look whether batches became longer or larger, layers were unfrozen, or the model was recompiled; and "
    "at the clocks of the GPU.",
    "backward": "Compare the ranks: in backward a rank waits for the slowest. Else as for the forward pass.",
    "optimizer": "Look whether parameters were added to it, or its state went to the host's memory.",
    "other": "Look at what stands between optimizer.step() and the next batch: logging, .item(), writing of files, "
    "lists that grow; do it every 50 steps.",
}


@rule
class StepTimeRule(Rule):
    """step-time-regression."""

    ALIKE = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._shift = context.value(SHIFT)
        self._detector = SlowdownDetector(self._shift, self._elapsed)
        self._outside = SlowdownDetector(1.0, self._elapsed, OUTSIDE_SIGMAS)
        """The same for the phase "other" alone."""
        self._by_outside = False
        self._finding: Finding | None = None
        self._crowd = Crowd()

    def _elapsed(self, pace: Pace) -> float:
        return pace.mean * max(pace.count, (pace.x1 - pace.x0) // self.context.stride + 1)

    def resumed(self) -> None:
        self.context.windows.clear()
        self._detector.clear()
        self._outside.clear()
        self._end(self.context.last_x, "a new attempt took over")

    def host(self, host: wire.Host) -> None:
        self._crowd.add(self.context.last_x, host)

    def event(self, event: wire.Event) -> None:
        if event.kind == "epoch":
            self._detector.epoch(self.context.last_x)
            self._outside.epoch(self.context.last_x)

    def steps(self, block: StepBlock) -> None:
        for pace in self.context.paces(block):
            if (found := self._detector.add(pace)) is not None and not (self._finding and self._by_outside):
                self._tell(found)
            if OUTSIDE in pace.phases:
                self._look_outside(pace)

    def _look_outside(self, pace: Pace) -> None:
        """On a crowded host the whole step is noise; a phase that used to be next to nothing is not."""
        found = self._outside.add(pace.only(OUTSIDE))
        if found is None or (self._finding is not None and not self._by_outside):
            return
        whole = Slowdown(_whole(found.before), _whole(found.after), found.over)
        grown = found.after.mean - found.before.mean
        if self._finding is None and (found.over or whole.ratio < 1 + self._shift or grown < GROWN * whole.before.mean):
            return
        self._by_outside = True
        self._tell(whole)

    def _tell(self, found: Slowdown) -> None:
        if found.over:
            self._end(found.after.x1, "it came back")
            return
        finding = self._finding
        if finding is None:
            crowd = self._crowd.since(found.after.x0, found.after.x1, self.context.hello)
            severity: Severity = "info" if crowd is not None or found.ratio < WARNING else "warning"
            phase, claim = _slower(found, crowd)
            self._finding = self.context.open(
                "step-time-regression",
                claim,
                severity=severity,
                area=AREA,
                failure_mode="pipeline",
                where=phase or "step",
                first_x=found.after.x0,
                last_x=found.after.x1,
            )
        elif found.after.x1 - finding.first_step >= 2 * (finding.last_step - finding.first_step):
            finding.last_step = found.after.x1
            finding.claim.symptom = _symptom(found)
            self.context.book.changed()

    def _end(self, x: int, how: str) -> None:
        if self._finding is not None:
            self._finding.claim.symptom += f"; {how} by step {x:,}"
            self._finding.resolve(x, "info")
            self._finding = None
            self._by_outside = False
            self.context.book.changed()


def _whole(pace: Pace) -> Pace:
    """The step again, of a window that was narrowed to one phase."""
    mean = sum(pace.phases.values())
    return replace(pace, median=mean, mean=mean)


def _symptom(found: Slowdown) -> str:
    before, after = found.before, found.after
    return (
        f"a step takes {seconds(after.mean)} since step {after.x0:,}, {seconds(before.mean)} before "
        f"({found.ratio:.2g} times)"
    )


def _slower(found: Slowdown, crowd: Evidence | None) -> tuple[str, Claim]:
    before, after = found.before, found.after
    grown = {
        name: after.phases.get(name, 0.0) - before.phases.get(name, 0.0)
        for name in sorted(before.phases.keys() | after.phases.keys())
    }
    worst = max(grown, key=lambda name: grown[name], default="")
    phase = worst if worst and grown[worst] >= PHASE * (after.mean - before.mean) else ""
    evidence = [
        Evidence(
            f"before: {seconds(before.mean)} a step, median {seconds(before.median)} (steps {before.x0:,} to "
            f"{before.x1:,})",
            "step_time",
            before.x1,
            before.mean,
            "s",
        ),
        Evidence(
            f"since: {seconds(after.mean)} a step, median {seconds(after.median)} (steps {after.x0:,} to {after.x1:,})",
            "step_time",
            after.x1,
            after.mean,
            "s",
        ),
    ]
    for name in sorted(grown, key=lambda name: -grown[name])[:2]:
        was, now = before.phases.get(name, 0.0), after.phases.get(name, 0.0)
        evidence.append(Evidence(f"{name}: {seconds(was)} before, {seconds(now)} since", name, after.x1, now, "s"))
    if crowd is not None:
        evidence.append(crowd)
    questions = ["Did the size or the length of the batches change at this step?"]
    if not grown:
        questions.insert(0, "Which phase grew? The steps' phases were not recorded.")
    return phase, Claim(
        symptom=_symptom(found),
        hypothesis=(
            "Other processes on the host compete for its cores."
            if crowd is not None
            else f"The time went into the phase {phase}."
            if phase
            else "All phases became slower together: lower clocks, a shared host, or larger batches."
        ),
        fix=(
            "Nothing in the job: ask for cores of its own, or end what else runs there."
            if crowd is not None
            else FIXES.get(phase.removeprefix("input+"), "Look at the clocks and the load of the host and of the GPU.")
        ),
        confidence=(
            "high that it is slower: every window since lies outside of what came before. Medium on the cause: a "
            "profile of ten steps would tell."
        ),
        evidence=evidence,
        open_questions=questions,
    )


@rule
class RecompileRule(Rule):
    """recompile-storm."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._needed = context.value(RECOMPILES)
        self._base = (0, 0, 0.0)
        """Step, recompilations and seconds of compiling from which is counted."""
        self._last = 0
        self._rises: list[tuple[int, int]] = []
        """(step, recompilations) of the first and the newest records with more of them."""
        self._calm_since = 0.0
        self._finding: Finding | None = None

    def resumed(self) -> None:
        self._base, self._last = (self.context.last_x, 0, 0.0), 0
        self._rises.clear()

    def compiler(self, compiler: wire.Compiler) -> None:
        if compiler.recompiles is None:
            return
        last, self._last = self._last, compiler.recompiles
        x = self.context.last_x
        if self.context.steps < WARM:
            self._base = (x, compiler.recompiles, compiler.seconds or 0.0)
        elif compiler.recompiles > last:
            self._calm_since = compiler.t
            self._rises.append((x, compiler.recompiles))
            del self._rises[1:-8]
            self._judge(compiler, compiler.recompiles, x)
        elif self._finding is not None and compiler.t - self._calm_since > CALM:
            self._finding.claim.symptom += f"; none since step {self._rises[-1][0]:,}"
            self._finding.resolve(x, "info")
            self._finding = None
            self._base = (x, compiler.recompiles, compiler.seconds or 0.0)
            self._rises.clear()
            self.context.book.changed()

    def _judge(self, compiler: wire.Compiler, recompiles: int, x: int) -> None:
        since, before, compiled = self._base
        count = recompiles - before
        if count < self._needed:
            return
        spent = None if compiler.seconds is None else compiler.seconds - compiled
        claim = self._claim(since, x, count, spent, compiler)
        if self._finding is None:
            self._finding = self.context.open(
                "recompile-storm",
                claim,
                severity="warning",
                area="precision/batching/recompute/compilation",
                failure_mode="pipeline",
                where="compiler",
                first_x=self._rises[0][0],
                last_x=x,
            )
        else:
            self._finding.claim, self._finding.last_step = claim, x
            self.context.book.changed()

    def _claim(self, since: int, x: int, count: int, spent: float | None, compiler: wire.Compiler) -> Claim:
        cost = f", {seconds(spent)} of compiling" if spent else ""
        evidence = [
            Evidence(f"step {at:,}: {total} recompilations so far", "recompiles", at, float(total))
            for at, total in (self._rises[0], self._rises[-1])
        ]
        if spent is not None:
            evidence.append(
                Evidence(f"{seconds(spent)} spent compiling since step {since:,}", "compiling", x, spent, "s")
            )
        if compiler.graph_breaks is not None:
            text = f"{compiler.graph_breaks} graph breaks"
            evidence.append(Evidence(text, "graph_breaks", x, float(compiler.graph_breaks)))
        return Claim(
            symptom=f"{count} recompilations between steps {since:,} and {x:,}{cost}",
            hypothesis=(
                "Something that the compiled code was specialized on changes from step to step: the shape of the "
                "batch, a Python number, or an attribute of a module."
            ),
            fix=(
                "Run once with TORCH_LOGS=recompiles: it names the guard that fails. For shapes: pad to a few lengths, "
                "drop_last=True, or torch.compile(dynamic=True) and torch._dynamo.mark_dynamic; for numbers: pass "
                "tensors."
            ),
            confidence="high: the compiler's own counts. Which guard fails is not recorded.",
            evidence=evidence,
            open_questions=["Which guard fails?"],
        )
