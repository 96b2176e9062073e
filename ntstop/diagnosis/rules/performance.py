"""What a step waits for: its input, its copies to the device; and a device that waits."""

from __future__ import annotations

from collections import deque
from typing import Final

import numpy as np

from ntstop_probe import wire

from ..catalogue import Area, kind
from ..context import Context, StepBlock
from ..crowd import Crowd
from ..detectors.pace import Pace
from ..detectors.shares import ShareWatch
from ..detectors.turns import Turns, TurnWatch
from ..evidence import seconds
from ..finding import Claim, Evidence, Finding, Severity
from ..input_claims import CROWD_CAUSE, CROWD_FIX, input_cause, input_fix, slower_loading, worker_basis, worker_text
from ..thresholds import threshold
from ..turn_claims import by_itself, turn_cause, turn_evidence, turn_fix, turn_words
from .base import Rule, rule

AREA: Final[Area] = "performance"
INPUT_BOUND = kind(
    "input-bound",
    "input and compute",
    AREA,
    meaning="The training waits for its next batch: the loader, not the model, sets the pace.",
    detector="The share of the step, evaluations and checkpoints left out, that passes in next() of the loader, in "
    "windows of steps; without a loader it is not known and not said. Waits that come with a period, such as that of "
    "the loader's workers, are told with it.",
    severity="warning; info where a fetch is so short that it is Python's own time, the GPU is busy all the same, or "
    "other processes hold the host's cores, unless the waits come with a period that these do not explain.",
)
TRANSFER_BOUND = kind(
    "transfer-bound",
    "input and compute",
    AREA,
    meaning="A large part of the step goes into copying batches to the device.",
    detector='The share of a phase that the job itself calls "transfer", "h2d" or "to_device" '
    "(`with ntstop_probe.phase(...)`): from outside a copy cannot be told from the forward pass.",
    severity="warning.",
)
GPU_IDLE = kind(
    "gpu-underutilized",
    "input and compute",
    AREA,
    meaning="The GPU has no kernel running for much of the time, although the loader is not what it waits for.",
    detector="The median utilization that the driver reports, over the last minute of training; MIG has none.",
    severity="warning; info where the steps are so short that launching them is the work.",
)
SHARE = threshold(
    "input-bound.share",
    0.3,
    unit="of the step",
    high=1.0,
    meaning="Share of the step that is spent in the loader. Raised, only slower loaders are told.",
    source="at 0.3 a loader that keeps up would make the run 1.4 times as fast; a prefetching loader takes under 0.05",
)
FETCH = threshold(
    "input-bound.fetch",
    0.003,
    unit="s",
    meaning="Mean seconds of a fetch below which it is a note. Raised, slower loaders are notes only.",
    source="measured: indexing and collating 64 tensors one by one takes 0.3 to 1 ms, three times that on a busy host",
)
TRANSFER = threshold(
    "transfer-bound.share",
    0.25,
    unit="of the step",
    high=1.0,
    meaning="Share of the step that is spent in copies to the device. Raised, only slower copies are told.",
    source="as for the input: a quarter of the step is worth a pinned buffer and a copy ahead",
)
BUSY = threshold(
    "gpu-underutilized.utilization",
    40.0,
    unit="%",
    high=100.0,
    meaning="Median utilization below which it is told. Raised, busier devices are told too.",
    source="utilization counts any kernel at all, so under 40 % more than half of the time nothing runs",
)
SECONDS = threshold(
    "gpu-underutilized.seconds",
    60.0,
    unit="s",
    low=5.0,
    meaning="Seconds of training over which the median of the utilization is taken. Raised, it is told later and "
    "shorter lulls are not.",
    source="60 readings, one a second: the median's error is under a few percent",
)
LEAP: Final = 3.0
"""Times its share of the step that a loader must take to be slow by itself beside others that were there before."""
COPIES: Final = frozenset({"transfer", "h2d", "to_device", "copy"})
SATURATED: Final = 90.0
"""Percent of utilization at which the GPU does not wait for anything."""
SHORT_STEP: Final = 0.005
"""Seconds: at 5 ms a step, a few hundred launches are the step."""


@rule
class InputRule(Rule):
    """input-bound, transfer-bound and gpu-underutilized: they exclude each other, in this order."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._input = ShareWatch(context.value(SHARE), _waited)
        self._copies = ShareWatch(context.value(TRANSFER), _copied)
        self._findings: dict[str, Finding] = {}
        self._host: wire.Host | None = None
        self._crowd = Crowd()
        self._turns = TurnWatch()
        self._late: Turns | None = None
        self._timed, self._look = 0, 0
        """Timed steps so far, and how many there must be for another look at the turns."""
        self._busy: dict[int, deque[float]] = {}
        self._needed = int(context.value(SECONDS))
        self._last: Pace | None = None
        self._seen = -1

    def resumed(self) -> None:
        self.context.windows.clear()
        self._turns.clear()
        self._late, self._timed, self._look = None, 0, 0
        self._busy.clear()

    def host(self, host: wire.Host) -> None:
        self._host = host
        self._crowd.add(self.context.last_x, host)

    def steps(self, block: StepBlock) -> None:
        self._turns.add(block)
        for pace in self.context.paces(block):
            self._last = pace
            self._timed += pace.count
            if "data" in pace.phases:
                self._judge("input-bound", self._input, pace)
            if _copied(pace) or self._copies.open:
                self._judge("transfer-bound", self._copies, pace)

    def _judge(self, name: str, watch: ShareWatch, pace: Pace) -> None:
        was = watch.open
        told = watch.add(pace)
        if name == "input-bound" and watch.open and self._late_turns(pace, due=told is not None):
            told = watch.told()
        finding = self._findings.get(name)
        if told is not None:
            before, since = told
            severity: Severity = "warning"
            if name == "input-bound":
                crowd = self._crowded(before, since)
                claim = self._input_claim(before, since, crowd)
                severity = self._severity(since, crowd)
            else:
                claim = _copies_claim(before, since)
            if finding is None:
                where = "data" if name == "input-bound" else "transfer"
                self._findings[name] = self._open(name, claim, severity, where, since)
            else:
                finding.claim, finding.severity, finding.last_step = claim, severity, since.x1
                self.context.book.changed()
        elif was and not watch.open and finding is not None:
            self._end(name, f"back to {watch.share(pace):.0%} of the step by step {pace.x1:,}", pace.x1)

    def _late_turns(self, pace: Pace, *, due: bool) -> bool:
        """Look for late turns, when that is `due` or at twice the steps; whether they say something new."""
        if not due and self._timed < self._look:
            return False
        self._look = 2 * self._timed
        workers = self._workers()
        was, self._late = self._late, self._turns.at(pace.x1, workers)
        return _essence(was, workers) != _essence(self._late, workers)

    def _open(self, name: str, claim: Claim, severity: Severity, where: str, since: Pace) -> Finding:
        return self.context.open(
            name,
            claim,
            severity=severity,
            area=AREA,
            failure_mode="pipeline",
            where=where,
            first_x=since.x0,
            last_x=since.x1,
        )

    def _end(self, name: str, how: str, x: int) -> None:
        finding = self._findings.pop(name, None)
        if finding is not None:
            finding.claim.symptom += f"; {how}"
            finding.resolve(x, "info")
            self.context.book.changed()

    def _severity(self, since: Pace, crowd: Evidence | None) -> Severity:
        short = since.phases["data"] < self.context.value(FETCH)
        return "info" if short or self._saturated() or crowd is not None else "warning"

    def _crowded(self, before: Pace | None, since: Pace) -> Evidence | None:
        """Others may have slowed the loader down, unless it was quick beside the same others, or is late in turn."""
        if by_itself(self._late, self._workers()):
            return None
        leapt = before is not None and before.share("data") * LEAP < since.share("data")
        return self._crowd.since(since.x0, since.x1, self.context.hello, lasting=not leapt)

    def _saturated(self) -> bool:
        return any(len(seen) >= 5 and np.median(list(seen)[-10:]) >= SATURATED for seen in self._busy.values())

    def _input_claim(self, before: Pace | None, since: Pace, crowd: Evidence | None) -> Claim:
        share, fetch = since.share("data"), since.phases["data"]
        was = f", {before.share('data'):.0%} before step {since.x0:,}" if before else ", from the first steps on"
        host, workers, late = self._host, self._workers(), self._late
        turns = "" if late is None else f"{':' if before is None else ';'} {turn_words(late)}"
        evidence = [
            Evidence(
                f"before: {before.share('data'):.0%} of {seconds(before.mean)} a step (steps {before.x0:,} to "
                f"{before.x1:,})",
                "data",
                before.x1,
                before.share("data"),
                "of the step",
            )
            if before
            else Evidence("there was no stretch without it", "data", since.x0),
            Evidence(
                f"since: {share:.0%} of {seconds(since.mean)} a step, {seconds(fetch)} a batch (steps {since.x0:,} to "
                f"{since.x1:,})",
                "data",
                since.x1,
                share,
                "of the step",
            ),
            Evidence(
                f"with a loader that keeps up the run would be {1 / max(1 - share, 0.01):.1f} times as fast",
                "data",
                since.x1,
                1 / max(1 - share, 0.01),
                "times",
                "estimated",
            ),
            *([] if late is None else turn_evidence(late, workers)),
            Evidence(worker_text(workers), "manifest", since.x1, workers, "workers", worker_basis(workers)),
        ]
        if host is not None and workers and host.children_cpu is not None:
            text = f"the child processes keep {host.children_cpu:.1f} cores busy"
            evidence.append(Evidence(text, "children_cpu", since.x1, host.children_cpu, "cores"))
        elif host is not None and host.process_cpu is not None:
            text = f"the process keeps {host.process_cpu:.1f} cores busy"
            evidence.append(Evidence(text, "process_cpu", since.x1, host.process_cpu, "cores"))
        if crowd is not None:
            evidence.append(crowd)
        if crowd is not None:
            cause, fix = CROWD_CAUSE, CROWD_FIX
        elif late is not None:
            cause, fix = turn_cause(late, workers), turn_fix(late, workers)
        else:
            cause, fix = input_cause(workers, host), input_fix(workers, host)
            cause += slower_loading(workers, before.phases.get("data") if before else None, fetch, since.x0)
        return Claim(
            symptom=f"the loader takes {share:.0%} of the step{was}{turns}",
            hypothesis=cause,
            fix=fix,
            confidence=(
                "high that it waits in next(): timed there, over several windows of steps. Medium on the cause: a run "
                "on random tensors of the same shape would tell."
            ),
            evidence=evidence,
            open_questions=[] if workers is not None else ["How many workers does the training DataLoader have?"],
        )

    def _workers(self) -> int | None:
        return self.context.hello.manifest.workers if self.context.hello is not None else None

    # The device

    def device(self, device: wire.Device) -> None:
        if device.utilization is None or device.lost:
            return
        if self.context.steps == self._seen and device.index in self._busy:
            return  # No step since: an evaluation, a checkpoint, or a stall, of which others speak.
        self._seen = self.context.steps
        seen = self._busy.setdefault(device.index, deque(maxlen=self._needed))
        seen.append(device.utilization)
        if len(seen) < self._needed or self._last is None:
            return
        level = float(np.median(seen))
        limit = self.context.value(BUSY)
        if "gpu-underutilized" not in self._findings:
            if level < limit and not self._input.open and not self._copies.open:
                self._idle(device, level, self._last)
        elif level > 1.25 * limit:
            self._end("gpu-underutilized", f"at {level:.0f} % by step {self.context.last_x:,}", self.context.last_x)

    def _idle(self, device: wire.Device, level: float, pace: Pace) -> None:
        host, x = self._host, self.context.last_x
        evidence = [
            Evidence(
                f"median utilization of GPU {device.index} over {self._needed} s: {level:.0f} %",
                "utilization",
                x,
                level,
                "%",
            ),
            Evidence(f"a step takes {seconds(pace.mean)}", "step_time", pace.x1, pace.mean, "s"),
        ]
        python = host is not None and host.process_cpu is not None and host.process_cpu >= 0.9
        if host is not None and host.process_cpu is not None:
            text = f"the process keeps {host.process_cpu:.1f} cores busy"
            evidence.append(Evidence(text, "process_cpu", x, host.process_cpu, "cores"))
        if "data" in pace.phases:
            text = f"the loader takes {pace.share('data'):.0%} of the step"
            evidence.append(Evidence(text, "data", pace.x1, pace.share("data"), "of the step"))
        questions = ["How long do the copies to the device take? `with ntstop_probe.phase('transfer')` would tell."]
        if "data" not in pace.phases:
            questions.append("Does the job wait for its input? It uses no DataLoader, so that is not measured.")
        claim = Claim(
            symptom=f"GPU {device.index} is busy {level:.0f} % of the time",
            hypothesis=(
                "Python cannot launch the kernels fast enough: many small operations, or a value read back in each step"
                " (.item(), print, a metric)."
                if python
                else "Something else than the loader holds the step up: copies, synchronization, another rank."
            ),
            fix=(
                "Make the batch larger while memory allows, and compile the model (torch.compile, "
                'mode="reduce-overhead" for CUDA graphs); read losses back every 50 steps, not in each.'
                if python
                else "Take a profile of ten steps with torch.profiler and look for the gaps between kernels."
            ),
            confidence="medium: utilization counts time with any kernel, not how much of the GPU it uses.",
            evidence=evidence,
            open_questions=questions,
        )
        severity: Severity = "info" if pace.mean < SHORT_STEP else "warning"
        self._findings["gpu-underutilized"] = self._open(
            "gpu-underutilized", claim, severity, f"GPU {device.index}", pace
        )


def _essence(turns: Turns | None, workers: int | None) -> tuple[int, tuple[int, ...], bool] | None:
    """What makes late turns other ones."""
    return None if turns is None else (turns.period, turns.late, by_itself(turns, workers))


def _waited(pace: Pace) -> float:
    """Of the step that it waits for the loader."""
    return pace.share("data")


def _copied(pace: Pace) -> float:
    """Of the step that copies take."""
    return sum(pace.share(name) for name in COPIES & pace.phases.keys())


def _copies_claim(before: Pace | None, since: Pace) -> Claim:
    spent = sum(since.phases[name] for name in COPIES & since.phases.keys())
    share = spent / since.mean
    return Claim(
        symptom=f"copies to the device take {share:.0%} of the step",
        hypothesis="Batches are copied from pageable memory, in the way of the step, or are larger than they need be.",
        fix="pin_memory=True in the DataLoader and .to(device, non_blocking=True); send uint8 and convert on the GPU.",
        confidence="high on the time: the job's own phase. It is the host's clock: a copy that does not block is less.",
        evidence=[
            Evidence(
                f"since: {seconds(spent)} of {seconds(since.mean)} a step (steps {since.x0:,} to {since.x1:,})",
                "transfer",
                since.x1,
                share,
                "of the step",
            ),
            *(
                [Evidence(f"before: {seconds(before.mean)} a step", "step_time", before.x1, before.mean, "s")]
                if before
                else []
            ),
        ],
    )
