"""Memory that has run out, is about to, or lies in pieces that are too small."""

from __future__ import annotations

from typing import Final

from ntstop_probe import wire

from ..catalogue import Area, kind
from ..context import Context
from ..finding import Claim, Evidence, Finding, Severity
from ..thresholds import threshold
from .base import Rule, rule
from .memory import is_oom, mega

AREA: Final[Area] = "update/memory/step profile"
OOM = kind(
    "oom",
    "memory",
    AREA,
    meaning="Memory ran out: of the GPU, or of the host.",
    detector="The text of the exception; the allocator's own count; a process that was killed while the host's memory "
    "was all but full.",
    severity="critical; warning where the job caught it and went on.",
)
RISK = kind(
    "oom-risk",
    "memory",
    AREA,
    meaning="Memory is so near its limit that a longer batch may be the end of the run.",
    detector="The share of the host's memory in use; the allocator's retries: each is a cudaMalloc that failed until "
    "all cached blocks were given back.",
    severity="warning; critical from 98 % of the host's memory on.",
)
PIECES = kind(
    "fragmentation",
    "memory",
    AREA,
    meaning="The GPU's memory is reserved but lies in pieces that are too small for what is asked for.",
    detector="The share of the reserved bytes that is inactive in split blocks, while the allocator retries or has "
    "reserved nearly all of the device.",
    severity="warning.",
)
FULL = threshold(
    "oom-risk.host",
    0.95,
    unit="of the memory",
    high=1.0,
    meaning="Share of the host's memory in use for five seconds. Raised, it is told when less is left.",
    source="earlyoom acts from 0.9 on; what counts is memory that the kernel cannot give back",
)
SPLIT = threshold(
    "fragmentation.share",
    0.2,
    unit="of reserved",
    high=1.0,
    meaning="Share of the reserved bytes that is inactive in split blocks. Raised, only worse fragmentation is told.",
    source="PyTorch's own out-of-memory text points at fragmentation when reserved is much more than allocated; "
    "with blocks of 2 to 20 MB a healthy job has some percent",
)
CRITICAL: Final = 0.98
LASTS: Final = 5
"""Readings in a row, one a second."""
NEARLY_ALL: Final = 0.9
"""Share of the device that is reserved when there is no room for a new block."""
CALM: Final = 300.0
"""Seconds without a retry after which it is over."""


@rule
class OomRule(Rule):
    """oom and oom-risk."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._limit = context.value(FULL)
        self._host: wire.Host | None = None
        self._high = self._low = 0
        self._risk: Finding | None = None
        self._oom: Finding | None = None
        self._ooms: dict[int, int] = {}

    def resumed(self) -> None:
        self._ooms.clear()
        self._host = None
        for finding in (self._oom, self._risk):
            if finding is not None:
                finding.resolve(self.context.last_x, "warning")
                self.context.book.changed()
        self._oom = self._risk = None

    def host(self, host: wire.Host) -> None:
        self._host = host
        share = self._share()
        if share is None:
            return
        self._high = self._high + 1 if share >= self._limit else 0
        self._low = self._low + 1 if share < self._limit - 0.05 else 0
        severity: Severity = "critical" if share >= CRITICAL else "warning"
        if self._risk is None and self._high >= LASTS:
            x = self.context.last_x
            self._risk = self._open("oom-risk", self._risk_claim(host, share), severity, "host memory", x)
        elif self._risk is not None and self._low >= LASTS:
            self._risk.resolve(self.context.last_x, "info")
            self._risk = None
            self.context.book.changed()

    def allocator(self, allocator: wire.Allocator) -> None:
        if allocator.ooms is None:
            return
        known = self._ooms.setdefault(allocator.index, 0)
        self._ooms[allocator.index] = allocator.ooms
        if allocator.ooms > known and self._oom is None:
            used = [] if allocator.allocated is None else [_allocated(allocator, self.context.last_x)]
            claim = Claim(
                symptom=f"GPU {allocator.index} ran out of memory {allocator.ooms} time(s), and the job went on",
                hypothesis="The job catches the error and tries again with less.",
                fix="Choose the smaller batch from the start: each retry costs a step and leaves the memory in pieces.",
                confidence="high: the allocator's own count. What the job does about it is not recorded.",
                evidence=[
                    Evidence(f"{allocator.ooms} out of memory errors", "ooms", self.context.last_x, allocator.ooms),
                    *used,
                ],
            )
            self._oom = self._open("oom", claim, "warning", f"GPU {allocator.index}", self.context.last_x)

    def event(self, event: wire.Event) -> None:
        if event.kind == "exception" and is_oom(event.text):
            self._ran_out(event)
        elif event.kind == "exit" and event.data.get("code") in (137, -9):
            self._killed("exit code 137: killed by SIGKILL", self.context.last_x)

    def gone(self, evidence: str, at: int, *, continued: bool) -> None:
        if not continued:
            self._killed(evidence, at)

    def _ran_out(self, event: wire.Event) -> None:
        x, text = self.context.x_open, event.text.partition("\n")[0]
        gpu = "cuda" in text.lower() or "hip" in text.lower()
        evidence = [Evidence(f"exception: {text}", "exception", x)]
        if event.data.get("where"):
            evidence.append(Evidence(f"raised in {event.data['where']}", "exception", x))
        evidence.extend(self._last_host(x))
        claim = Claim(
            symptom=f"{'the GPU' if gpu else 'the host'} ran out of memory in step {x:,}: {text[:120]}",
            hypothesis=(
                "Batch, sequence length and activations do not fit; or memory had crept up to the limit."
                if gpu
                else "An array larger than what was left, or memory that had crept up to the limit."
            ),
            fix=(
                "Halve the micro-batch and double the accumulation; checkpoint activations; bf16 autocast; and if what "
                "is reserved is much more than what is allocated, PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True."
                if gpu
                else "Load less at once (memory-mapped or streamed data), fewer workers, smaller prefetch_factor."
            ),
            confidence="high: the exception says so. The memory before it would tell whether it crept up.",
            evidence=evidence,
            open_questions=["Was this batch larger or longer than the others?"],
        )
        self._oom = self._open("oom", claim, "critical", "GPU" if gpu else "host memory", x)

    def _killed(self, how: str, at: int) -> None:
        share = self._share()
        if self._oom is not None or share is None or share < self._limit:
            return
        claim = Claim(
            symptom=f"the process was killed after step {at:,} while {share:.0%} of the host's memory was in use",
            hypothesis="The kernel's out-of-memory killer, or the job's memory limit, ended it.",
            fix="Look into dmesg and the scheduler's accounting; use fewer workers, or ask for more memory.",
            confidence="medium: it fits, but the kill is not recorded. An oom-kill line in dmesg would prove it.",
            evidence=[Evidence(how, "exit", at), *self._last_host(at)],
        )
        self._oom = self._open("oom", claim, "critical", "host memory", at)

    def _share(self) -> float | None:
        host = self._host
        if host is None or not host.memory_total or host.memory_used is None:
            return None
        return host.memory_used / host.memory_total

    def _last_host(self, x: int) -> list[Evidence]:
        host, share = self._host, self._share()
        if host is None or host.memory_used is None or share is None:
            return [Evidence("the host's memory before it is not known", "memory_used", x, basis="unchecked")]
        own = "" if host.process_rss is None else f", {mega(host.process_rss)} of it by this process"
        text = f"last reading: {mega(host.memory_used)} of the host in use ({share:.0%}){own}"
        return [Evidence(text, "memory_used", x, host.memory_used, "B")]

    def _risk_claim(self, host: wire.Host, share: float) -> Claim:
        return Claim(
            symptom=f"{share:.0%} of the host's memory is in use",
            hypothesis="This process, its workers or others on the host need nearly all of it.",
            fix="Fewer loader workers, a smaller prefetch_factor, memory-mapped data; or a host with more memory.",
            confidence="high on the figure; whether it ends the run depends on what is asked for next.",
            evidence=self._last_host(self.context.last_x)
            + (
                [Evidence(f"child processes: {mega(host.children_rss)}", "children_rss", None, host.children_rss, "B")]
                if host.children_rss
                else []
            ),
            open_questions=["Do other processes on this host use it?"],
        )

    def _open(self, name: str, claim: Claim, severity: Severity, where: str, x: int) -> Finding:
        finding = self.context.open(
            name, claim, severity=severity, area=AREA, failure_mode="pipeline", where=where, first_x=x
        )
        if name == "oom":
            # What led to it began long before, and is told on its card.
            for sign in ("memory-growth", "fragmentation", "oom-risk"):
                for known in self.context.book.find(sign, self.context.writer):
                    self.context.book.explain(finding, known)
            self._risk = None
        return finding


@rule
class PiecesRule(Rule):
    """fragmentation, and oom-risk of a device whose allocator retries without it."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._limit = context.value(SPLIT)
        self._totals: dict[int, int] = {}
        self._retries: dict[int, tuple[int, float]] = {}
        """Retries so far, and when the last one was."""
        self._findings: dict[int, Finding] = {}

    def resumed(self) -> None:
        self._retries.clear()

    def device(self, device: wire.Device) -> None:
        if device.memory_total is not None:
            self._totals[device.index] = device.memory_total

    def allocator(self, allocator: wire.Allocator) -> None:
        index, retries = allocator.index, allocator.retries or 0
        before, since = self._retries.get(index, (0, -1e18))
        if retries > before:
            since = allocator.t
        self._retries[index] = (retries, since)
        retried = allocator.t - since < CALM
        total, reserved, split = self._totals.get(index), allocator.reserved or 0, allocator.inactive_split
        tight = total is not None and reserved >= NEARLY_ALL * total
        pieces = split is not None and reserved > 0 and split >= self._limit * reserved
        finding = self._findings.get(index)
        if finding is None and retried and retries > before:
            self._open(allocator, "fragmentation" if pieces else "oom-risk", retries)
        elif finding is None and tight and pieces:
            self._open(allocator, "fragmentation", retries)
        elif finding is not None and not retried and not (tight and pieces):
            finding.resolve(self.context.last_x, "info")
            del self._findings[index]
            self.context.book.changed()

    def _open(self, allocator: wire.Allocator, name: str, retries: int) -> None:
        x, reserved, split = self.context.last_x, allocator.reserved or 0, allocator.inactive_split
        evidence = [_allocated(allocator, x)]
        if split is not None and reserved:
            text = f"{mega(split)} ({split / reserved:.0%} of reserved) is inactive in split blocks"
            evidence.append(Evidence(text, "inactive_split", x, float(split), "B"))
        if allocator.largest_free is not None:
            text = f"largest free block: {mega(allocator.largest_free)}"
            evidence.append(Evidence(text, "largest_free", x, float(allocator.largest_free), "B"))
        evidence.append(Evidence(f"{retries} retries of cudaMalloc so far", "retries", x, float(retries)))
        broken = name == "fragmentation"
        hello = self.context.hello
        told = hello.manifest.environment.get("PYTORCH_CUDA_ALLOC_CONF", "") if hello is not None else ""
        claim = Claim(
            symptom=(
                f"GPU {allocator.index}: {mega(split or 0)} of {mega(reserved)} reserved cannot be used, in pieces"
                if broken
                else f"GPU {allocator.index}: the allocator had to give its cache back {retries} time(s) to go on"
            ),
            hypothesis=(
                "Batches of ever other lengths leave holes that the next ones do not fit in."
                if broken
                else "What is allocated at the peak of a step is close to all that the device has."
            ),
            fix=(
                "Pad batches to a few lengths, and run the longest batch first."
                if broken and "expandable_segments:True" in told
                else "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True in the environment; pad to a few lengths."
                if broken
                else "A micro-batch one eighth smaller, or activation checkpointing: each retry stalls the device too."
            ),
            confidence="high: the allocator's own figures. Sampled once a second, peaks between are not seen.",
            evidence=evidence,
            open_questions=[] if allocator.index in self._totals else ["How much memory does the device have?"],
        )
        self._findings[allocator.index] = self.context.open(
            name,
            claim,
            severity="warning",
            area=AREA,
            failure_mode="pipeline",
            where=f"GPU {allocator.index}",
            first_x=x,
        )


def _allocated(allocator: wire.Allocator, x: int) -> Evidence:
    text = f"allocated {mega(allocator.allocated or 0)}, reserved {mega(allocator.reserved or 0)}"
    return Evidence(text, "allocated", x, float(allocator.allocated or 0), "B")
