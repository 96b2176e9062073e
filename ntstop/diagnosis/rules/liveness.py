"""Is it alive: a step that does not end, a process that stands still."""

from __future__ import annotations

from ntstop_probe import wire

from ..catalogue import Area, kind
from ..context import Context, StepBlock
from ..detectors.stall import CLASSES, FIRST_STEPS, FLOOR, SLOW_PHASES, StepTimes, valid
from ..evidence import seconds
from ..finding import Claim, Evidence, Finding, Severity
from ..stacks import Unannounced
from .base import Rule, rule

STALL = kind(
    "stall",
    "liveness",
    "performance",
    meaning="The step in progress has been in one phase for far too long, or the whole process did not run. The place "
    "says which phase: data, forward, backward, optimizer, collective, checkpoint, eval or host.",
    detector="The age of the phase in the heartbeats, against 20 s, 20 times the 99th percentile of the steps and 1.5 "
    "times the longest; the first steps may take 10 minutes, an evaluation or a checkpoint 15. A process that a signal "
    "holds is told as soon as it is seen, and again from its records once it goes on, if it stood for 20 s.",
    severity="critical; warning in an evaluation, a checkpoint or before the first step, until it is three times over.",
)
STALL_AREAS: dict[str, Area] = {
    "backward": "parallelism/collectives",
    "collective": "parallelism/collectives",
    "checkpoint": "checkpoint/recovery",
}
"""Where to look after a stall of a phase; elsewhere it is the performance."""
BEAT_GAP = FLOOR
"""Seconds without a heartbeat, on the writer's own clock, in which the process was stopped or could not run."""

HYPOTHESES = {
    "data": "The training thread waits in next(): a loader worker hangs or died, a lock, or a file system that does "
    "not answer.",
    "forward": "The forward pass does not return: a kernel that hangs, a deadlock in user code, or a copy that waits.",
    "backward": "Backward does not return: a gradient collective that waits for another rank, or a kernel that hangs.",
    "optimizer": "The optimizer step does not return: a sharded optimizer that waits for another rank, or a copy.",
    "collective": "A collective waits for a rank that has not come to it.",
    "checkpoint": "Writing the checkpoint does not return: a file system that is full, slow or gone.",
    "eval": "The evaluation does not return: its loader, its length, or a metric that never ends.",
    "host": "The training thread is outside its phases, or the process got no CPU: logging, input from a terminal, a "
    "lock, a stopped process.",
}
FIXES = {
    "data": "Run with num_workers=0 to see the error itself; give the DataLoader a timeout; look at the disk or mount.",
    "forward": "Look at the stack below; set CUDA_LAUNCH_BLOCKING=1 once to find the kernel.",
    "backward": "Compare the ranks: the one that is not in backward is the cause. Set TORCH_NCCL_TRACE_BUFFER_SIZE.",
    "optimizer": "Compare the ranks: the one that is not here is the cause.",
    "collective": "Find the rank that is somewhere else: it is the cause. Every rank must call the same collectives.",
    "checkpoint": "Check free space and the mount; write to the local disk and copy from there.",
    "eval": "Put a limit on the number of evaluation batches; look at the stack below.",
    "host": "Look at the stack below; if the process was stopped, `kill -CONT` goes on with it.",
}


@rule
class StallRule(Rule):
    """stall: the step in progress has been in one phase too long. Judged by heartbeats, resolved by progress.

    A checkpoint or an evaluation that nobody announced is known by its stack, and may take as long as one that was.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._times: StepTimes = context.times
        self._finding: Finding | None = None
        self._ordinal = -1
        self._worst = 0.0
        self._last_beat: wire.Heartbeat | None = None
        self._unannounced = Unannounced()
        self._held = False
        """The finding says that a signal holds the process, which no record shows."""

    def steps(self, block: StepBlock) -> None:
        if block.durations is not None and block.ordinal >= FIRST_STEPS and valid(block.durations):
            self._times.extend(block.durations.tolist())
        else:
            for index, duration in enumerate(block.duration or ()):
                if duration is not None:
                    self._times.add(block.ordinal + index, duration)
        if block.ordinal + block.count > self._ordinal:
            self._release()
        if self._finding is not None and block.ordinal + block.count > self._ordinal:
            self._resolve("the step ended")

    def heartbeat(self, heartbeat: wire.Heartbeat) -> None:
        self._release()
        heartbeat = self._unannounced.seen(heartbeat)
        last, self._last_beat = self._last_beat, heartbeat
        gap = heartbeat.t - last.t if last is not None else 0.0
        moved = last is not None and (heartbeat.ordinal, heartbeat.phase) != (last.ordinal, last.phase)
        if last is not None and last.phase in SLOW_PHASES and moved:
            self._times.slow_phase(last.phase, last.age)
        if self._finding is not None and self._finding.where != "host" and heartbeat.phase == "idle":
            self._resolve("training ended")
        kind = CLASSES.get(heartbeat.phase)
        threshold = self._times.threshold(heartbeat.phase, heartbeat.ordinal)
        # In the first steps checkpoints are unpickled and kernels compiled, with the interpreter's lock held.
        if gap > max(BEAT_GAP, threshold):
            self._stopped(heartbeat, gap)
            return
        if self._finding is not None:
            if heartbeat.ordinal > self._ordinal or (moved and heartbeat.age < threshold):
                self._resolve("it went on")
            else:
                self._worsen(heartbeat, threshold)
            return
        if kind is None or heartbeat.age <= threshold or not _may_stall(heartbeat):
            return
        self._open(kind, heartbeat, threshold)

    def event(self, event: wire.Event) -> None:
        if event.kind == "exit":
            self._release()
            self._ended("then the process exited")

    def resumed(self) -> None:
        self._release()
        self._last_beat = None
        for finding in self.context.book.find("stall", self.context.writer):
            self._finding = finding
            self._resolve("a new attempt took over")

    def gone(self, evidence: str, at: int, *, continued: bool) -> None:
        self._release()
        if not continued:
            self._ended(f"then the process was gone: {evidence}")

    def stopped(self, evidence: str) -> None:
        if self._held and self._finding is not None:
            self._finding.evidence[0].text = evidence
            self.context.book.changed()
            return
        if self._finding is not None:
            self._resolve("the process was stopped")
        self._hold(evidence)

    def _release(self) -> None:
        """The process goes on. From now on the records tell how long it stood, as they do in a replay."""
        if self._held and self._finding is not None:
            self.context.book.drop(self._finding)
            self._finding = None
        self._held = False

    def _ended(self, how: str) -> None:
        """No step came after the stall: it stays open, as the last thing that is known of the run."""
        if self._finding is not None:
            self._finding.evidence.append(Evidence(how, step=self._finding.first_step))
            self._finding = None
            self.context.book.changed()

    def _open(self, kind: str, beat: wire.Heartbeat, threshold: float) -> None:
        times = self._times
        self._ordinal, self._worst = beat.ordinal, beat.age
        usual = f", a usual step takes {seconds(times.p99)} (p99)" if times.p99 else ""
        x = self.context.x_open
        slow = beat.phase in SLOW_PHASES or not self.context.steps
        claim = Claim(
            symptom=_symptom(kind, beat.age, x),
            hypothesis=HYPOTHESES[kind],
            fix=self._fix(kind),
            confidence=(
                "high that it stands still: the process beats and the phase does not move. Medium on the cause: the "
                "stack and the other ranks would tell."
            ),
            evidence=[
                Evidence(
                    f"phase {beat.phase} for {seconds(beat.age)} in step {x:,}{usual}", "heartbeat", x, beat.age, "s"
                ),
                Evidence(f"limit for this phase: {seconds(threshold)}", "step_time", x, threshold, "s", "estimated"),
                *_stacks(beat, x),
            ],
            open_questions=[] if beat.stacks else ["Where does the training thread stand? `py-spy dump --pid PID`"],
        )
        self._start(claim, kind, x, "warning" if slow else "critical")

    def _fix(self, kind: str) -> str:
        hello = self.context.hello
        if kind == "data" and hello is not None and hello.manifest.workers == 0:
            return (
                "The loader has no workers: what hangs is the dataset's own code, at the end of the stack below. Look "
                "at the file, lock or connection it waits for, and give that a timeout."
            )
        return FIXES[kind]

    def _hold(self, evidence: str) -> None:
        context, beat = self.context, self._last_beat
        x = context.x_open
        phase = f" in phase {beat.phase}" if beat is not None else ""
        pid = str(context.hello.pid) if context.hello is not None else "PID"
        claim = Claim(
            symptom=f"the process is stopped, in step {x:,}{phase}: nothing runs in it",
            hypothesis="It was sent SIGSTOP, or ctrl-z was typed in its terminal, or a scheduler or debugger holds it.",
            fix=f"`kill -CONT {pid}` goes on with it; then look who stops it: a scheduler's preemption, a shell.",
            confidence="high: the kernel says so. Who has sent the signal, it does not keep.",
            evidence=[Evidence(evidence, "heartbeat", x)],
        )
        self._held = True
        self._ordinal, self._worst = context.last_ordinal + 1, 0.0
        self._start(claim, "host", x, "critical")

    def _stopped(self, beat: wire.Heartbeat, gap: float) -> None:
        x = self.context.x_open
        claim = Claim(
            symptom=f"the whole process did not run for {seconds(gap)} in step {x:,}",
            hypothesis="It was stopped (SIGSTOP, a suspended job, a debugger), or C code held the interpreter's lock.",
            fix="Look who stops it: the scheduler's preemption, a job control shell, or a debugger.",
            confidence=(
                "high: the heartbeat thread itself was silent on its own clock. The scheduler's record would tell why."
            ),
            evidence=[
                Evidence(f"no heartbeat for {seconds(gap)}, then phase {beat.phase}", "heartbeat", x, gap, "s"),
                *_stacks(beat, x),
            ],
        )
        if self._finding is not None:
            self._resolve("the process was stopped")
        self._ordinal, self._worst = beat.ordinal, gap
        self._start(claim, "host", x, "critical")

    def _start(self, claim: Claim, phase: str, x: int, severity: Severity) -> None:
        self._finding = self.context.open(
            STALL.name,
            claim,
            severity=severity,
            area=STALL_AREAS.get(phase, STALL.area),
            failure_mode="pipeline",
            where=phase,
            first_x=x,
        )

    def _worsen(self, beat: wire.Heartbeat, threshold: float) -> None:
        finding = self._finding
        if finding is None or beat.age <= self._worst:
            return
        self._worst = beat.age
        finding.claim.symptom = _symptom(finding.where, beat.age, finding.first_step)
        finding.evidence[0].value = beat.age
        if beat.stacks and not any(item.series == "stack" for item in finding.evidence):
            finding.evidence.extend(_stacks(beat, finding.first_step))
            finding.claim.open_questions.clear()
        if finding.severity == "warning" and beat.age > 3.0 * threshold:
            finding.severity = "critical"
        self.context.book.changed()

    def _resolve(self, how: str) -> None:
        finding = self._finding
        if finding is None:
            return
        finding.claim.symptom += f"; {how} after {seconds(self._worst)} or more"
        finding.resolve(self.context.last_x, "warning")
        self._finding = None
        self.context.book.changed()


def _may_stall(beat: wire.Heartbeat) -> bool:
    """Before the first step the probe says why there is none: no torch, no optimizer. That is not a stall."""
    return beat.phase != "start" or not beat.reason


def _symptom(kind: str, age: float, x: int) -> str:
    where = "outside forward, backward and optimizer" if kind == "host" else f"in {kind}"
    return f"step {x:,} has been {where} for {seconds(age)}"


def _stacks(beat: wire.Heartbeat, x: int) -> list[Evidence]:
    return [
        Evidence(f"thread {stack.thread}: " + " ← ".join(reversed(stack.frames[-4:])), "stack", x)
        for stack in beat.stacks[:2]
    ]
