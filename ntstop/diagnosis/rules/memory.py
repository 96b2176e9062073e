"""Memory that creeps up, that is in pieces, and that runs out."""

from __future__ import annotations

import re
from typing import Final

from ntstop_probe import wire

from ..catalogue import Area, kind
from ..context import Context, StepBlock
from ..detectors.drift import Drift, DriftDetector
from ..evidence import seconds
from ..finding import Claim, Evidence, Finding, Severity
from ..thresholds import threshold
from .base import Rule, rule

AREA: Final[Area] = "update/memory/step profile"
GROWTH = kind(
    "memory-growth",
    "memory",
    AREA,
    meaning="Memory creeps up while nothing in the training should need more: of the process, of the loader's workers, "
    "or of the GPU's allocator.",
    detector="Theil–Sen slope, with its interval, over the lowest readings of the last half of the run; start-up is "
    "left out, and what slows down as it fills up.",
    severity="warning when it would be full within a day or has grown by a quarter; critical within 10 minutes; else "
    "info.",
)
LEAST = threshold(
    "memory-growth.bytes",
    64e6,
    unit="B",
    low=1e6,
    meaning="Bytes of growth over the window below which nothing is told. Raised, slow leaks are told later.",
    source="measured: allocators and caches of small healthy jobs settle within 40 MB after their first 32 steps",
)
SHARE = threshold(
    "memory-growth.share",
    0.05,
    unit="of the level",
    meaning="Share of the level at the start of the window that it must grow by as well. Raised, slow leaks are told "
    "later.",
    source="twice what the resident memory of a process that trains wanders by itself",
)
SETTLE_STEPS: Final = 32
SETTLE_SECONDS: Final = 3.0
"""Buffers, caches and optimizer state fill in the first steps."""
SENT: Final = 128
"""Batches after which a worker's memory has its size: torch keeps what a worker has sent until there are more than 128
tensors of it (`SharedCache.limit` in torch.multiprocessing.reductions), and then lets go of what is dead."""
COPIED: Final = 4.0
COPIED_SHARE: Final = 0.25
"""Workers that have copied 256 MB and a quarter of what they were forked with: batches in a queue take less. What is
new in them makes them larger, what is copied only less shared."""
DAY: Final = 86_400.0
SOON: Final = 600.0
MISSES: Final = 3
"""Looks in a row without it before it is resolved."""
_OOM = re.compile(
    r"out ?of ?memory|memoryerror|can.?t allocate memory|cannot allocate memory|bad_alloc|alloc_failed", re.I
)
FULL: Final = "; full in about "
HOST, WORKERS = "host memory", "loader workers"
FIXES = {
    HOST: "Look at what the loop keeps from step to step: `total += loss` keeps every graph (use loss.item() or "
    "loss.detach()), lists of outputs or losses, hooks; tracemalloc or memray shows the line.",
    WORKERS: "Hold the dataset's samples in a few large arrays (numpy, torch, Arrow), not in lists or dicts of Python "
    "objects, whose pages are copied as their reference counts change; clear caches in __getitem__.",
    "GPU": "Look at what keeps tensors on the GPU from step to step: `total += loss` (use loss.item() or .detach()), "
    "lists of outputs, metrics; torch.cuda.memory._record_memory_history() shows the line.",
}


def mega(value: float) -> str:
    """ "350 MB", "12.4 GB"."""
    return f"{value / 1e9:.1f} GB" if abs(value) >= 1e9 else f"{value / 1e6:.0f} MB"


def is_oom(text: str) -> bool:
    """Whether an exception says that memory ran out."""
    return bool(_OOM.search(text.partition("\n")[0]))


@rule
class GrowthRule(Rule):
    """memory-growth, for each of the places that memory is used in."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._least, self._share = context.value(LEAST), context.value(SHARE)
        self._drifts: dict[str, DriftDetector] = {}
        self._findings: dict[str, Finding] = {}
        self._misses: dict[str, int] = {}
        self._began: float | None = None
        self._steps = 0
        """Steps of this attempt."""
        self._children = 0
        self._came = 0
        """Steps of this attempt before the workers came."""
        self._forked: tuple[float, int, int, int] | None = None
        """When and where the workers' own bytes were read first, how many they were, and with the shared ones."""
        self._totals: dict[int, int] = {}

    def resumed(self) -> None:
        for drift in self._drifts.values():
            drift.clear()
        self._began, self._steps, self._came = None, 0, 0
        for where in list(self._findings):
            self._end(where, "a new attempt took over")

    def steps(self, block: StepBlock) -> None:
        self._steps += block.count

    def device(self, device: wire.Device) -> None:
        if device.memory_total is not None:
            self._totals[device.index] = device.memory_total

    def host(self, host: wire.Host) -> None:
        if self._forked is None and host.children_private is not None:
            self._forked = self._as_forked(host)
            self._children, self._came = host.children or 0, self._steps
        if not self._settled(host.t):
            return
        full = host.memory_total
        room = None if full is None or host.memory_used is None else max(0, full - host.memory_used)
        if host.process_rss is not None:
            self._look(HOST, host.t, host.process_rss, room)
        if host.children is None or host.children != self._children:
            # Workers that come and go change the sum without any of them growing.
            self._drifts.pop(WORKERS, None)
            self._forked = self._as_forked(host)
            self._end(WORKERS, "workers came or went")
            self._children, self._came = host.children or 0, self._steps
        elif host.children and host.children_private is not None:
            if self._steps - self._came >= SENT * host.children:
                self._look(WORKERS, host.t, host.children_private, room)
            self._copied(host.t, host.children_private, host.children_rss, room)

    def _as_forked(self, host: wire.Host) -> tuple[float, int, int, int] | None:
        if host.children_private is None:
            return None
        return host.t, self.context.last_x, host.children_private, host.children_rss or host.children_private

    def _copied(self, t: float, private: int, resident: int | None, room: float | None) -> None:
        """What forked workers shared at first and have copied since: at most all of it, so it need not go on."""
        if self._forked is None:
            return
        x, (began, first_x, first, whole) = self.context.last_x, self._forked
        grown = private - first
        copied = grown - max(0, (resident or 0) - whole)
        if WORKERS in self._findings or not resident or copied < max(COPIED * self._least, COPIED_SHARE * resident):
            return
        span = t - began
        slope = grown / span
        drift = Drift(first_x, first, x, private, span, slope, slope, slope, 2)
        self._findings[WORKERS] = self._open(WORKERS, drift, room)

    def allocator(self, allocator: wire.Allocator) -> None:
        if allocator.allocated is not None and self._settled(allocator.t):
            total = self._totals.get(allocator.index)
            room = None if total is None else max(0, total - allocator.allocated)
            self._look(f"GPU {allocator.index}", allocator.t, allocator.allocated, room)

    def _settled(self, t: float) -> bool:
        if self._steps < SETTLE_STEPS:
            return False
        self._began = t if self._began is None else self._began
        return t - self._began >= SETTLE_SECONDS or self._steps >= 4 * SETTLE_STEPS

    def _look(self, where: str, t: float, value: float, room: float | None) -> None:
        detector = self._drifts.setdefault(where, DriftDetector())
        if not detector.add(t, self.context.last_x, value):
            return
        drift = detector.drift(self._least, self._share)
        if drift is None:
            self._misses[where] = self._misses.get(where, 0) + 1
            if self._misses[where] >= MISSES:
                self._end(where, "it stopped growing")
            return
        self._misses[where] = 0
        finding = self._findings.get(where)
        if finding is None:
            self._findings[where] = self._open(where, drift, room)
            return
        claim, severity = _claim(where, drift, room), _severity(where, drift, room)
        finding.claim, finding.severity, finding.last_step = claim, severity, drift.last_x
        self.context.book.changed()

    def _open(self, where: str, drift: Drift, room: float | None) -> Finding:
        return self.context.open(
            "memory-growth",
            _claim(where, drift, room),
            severity=_severity(where, drift, room),
            area=AREA,
            failure_mode="pipeline",
            where=where,
            first_x=drift.first_x,
            last_x=drift.last_x,
        )

    def _end(self, where: str, how: str) -> None:
        finding = self._findings.pop(where, None)
        if finding is not None:
            # What it would come to is no more to be expected.
            finding.claim.symptom = f"{finding.claim.symptom.partition(FULL)[0]}; {how}"
            finding.claim.evidence = [item for item in finding.evidence if item.unit != "s"]
            finding.resolve(self.context.last_x, "info")
            self.context.book.changed()


def _left(drift: Drift, room: float | None) -> float | None:
    """Seconds until it is full; None when that is not known."""
    return None if room is None or drift.slope <= 0 else room / drift.slope


def _severity(where: str, drift: Drift, room: float | None) -> Severity:
    left, few = _left(drift, room), drift.points < 12
    if left is not None and left < SOON and not few:
        return "critical"
    return "warning" if (left is not None and left < DAY) or drift.growth >= 0.25 * drift.first else "info"


def _claim(where: str, drift: Drift, room: float | None) -> Claim:
    steps = max(1, drift.last_x - drift.first_x)
    left = _left(drift, room)
    until = f"{FULL}{seconds(left)}" if left is not None else ""
    per_step = drift.slope * drift.seconds / steps
    gpu = where.startswith("GPU")
    series = "allocated" if gpu else "children_private" if where == WORKERS else "process_rss"
    what = {HOST: "memory of the process", WORKERS: "memory of the loader's workers"}.get(where, where)
    evidence = [
        Evidence(f"before: {mega(drift.first)} at step {drift.first_x:,}", series, drift.first_x, drift.first, "B"),
        Evidence(f"now: {mega(drift.last)} at step {drift.last_x:,}", series, drift.last_x, drift.last, "B"),
        Evidence(
            f"slope {mega(60 * drift.slope)} a minute, 95 % {mega(60 * drift.low)} to {mega(60 * drift.high)}, "
            f"{per_step / 1e3:,.0f} kB a step, over {drift.points} readings in {seconds(drift.seconds)}",
            series,
            drift.last_x,
            drift.slope,
            "B/s",
            "estimated",
        ),
        Evidence(
            f"{mega(room)} are left: full in about {seconds(left)} at this slope"
            if room is not None and left is not None
            else "how much is left is not known",
            series,
            drift.last_x,
            left,
            "s",
            "unchecked" if left is None else "estimated",
        ),
    ]
    questions = [] if gpu else ["Is there a limit of the container or of the job below the host's memory?"]
    if where == HOST:
        questions.append("Are files mapped into memory? Their pages count, and are given back when needed.")
    return Claim(
        symptom=f"{what} grew from {mega(drift.first)} to {mega(drift.last)} in {steps:,} steps{until}",
        hypothesis=(
            "The workers copy the pages of the dataset's Python objects as they touch them (copy on write)."
            if where == WORKERS
            else "Something is kept from every step: a graph that a summed loss holds, tensors in a list, a cache "
            "without a limit."
        ),
        fix=FIXES["GPU" if gpu else where],
        confidence=(
            "medium: a few readings that rise by the same amount. Ten more would change it."
            if drift.points < 12
            else "high that it grows: the whole interval of the slope lies above 0. Low on what keeps it."
        ),
        evidence=evidence,
        open_questions=questions,
    )
