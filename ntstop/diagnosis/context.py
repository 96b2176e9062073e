"""What the rules of one rank know of its run: identity, layers, and the recent past. No judgement lives here."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ntstop.sources.logs.roles import Roles
from ntstop_probe import wire

from .block import StepBlock, Values
from .detectors.pace import Pace, PaceWindows, timed
from .detectors.rate import RateWatch
from .detectors.stall import StepTimes
from .finding import Book, Claim, FailureMode, Finding, Severity
from .folding import CAUSES, EXPLAINS, FROM_THE_START, SLACK, SLACK_STEPS, takes_over
from .thresholds import Threshold, Thresholds

__all__ = ["Context", "LayerSample", "StepBlock"]

RECENT = 1024
"""Newest steps whose place on the axis is known exactly, at least: what carries only an ordinal is placed by them."""


@dataclass(slots=True)
class LayerSample:
    """A `wire.Layers` with its columns unpacked, each as long as the schema's names."""

    schema: wire.Schema
    ordinal: int
    x: int
    t: float
    columns: dict[str, Values]


@dataclass(slots=True)
class Context:
    """One rank's run so far. The engine keeps it up to date before it calls the rules."""

    writer: int
    book: Book
    thresholds: Thresholds = field(default_factory=Thresholds)
    roles: Roles = field(default_factory=Roles)
    """What the metrics that the job logs are, by their names or as the user says."""
    hello: wire.Hello | None = None
    schemas: dict[int, wire.Schema] = field(default_factory=dict)
    first_x: int | None = None
    last_x: int = 0
    last_ordinal: int = -1
    steps: int = 0
    """Steps seen."""
    stride: int = 1
    """Global steps from one ordinal to the next."""
    rate: RateWatch = field(default_factory=RateWatch)
    times: StepTimes = field(default_factory=StepTimes)
    windows: PaceWindows = field(default_factory=PaceWindows)
    _paced: tuple[StepBlock | None, list[Pace]] = (None, [])
    _recent: deque[tuple[int, Sequence[int]]] = field(default_factory=deque)
    """Ordinal of the first step of each of the newest blocks, and the x of its steps."""
    _held: int = 0
    """Steps of these blocks."""

    def paces(self, block: StepBlock) -> list[Pace]:
        """The windows of timed steps that this block, the newest one, has completed."""
        if self._paced[0] is not block:
            paces: list[Pace] = []
            if block.seconds is not None:
                steps = timed(block.ordinal, block.x, block.seconds, block.phases.names, block.phases.table)
                paces = list(self.windows.add(steps))
            self._paced = (block, paces)
        return self._paced[1]

    @property
    def rank(self) -> int | None:
        """None while (or if) the rank is not known."""
        return self.hello.rank if self.hello is not None else None

    @property
    def is_log(self) -> bool:
        """Whether another tool's log is read: nobody's process, and no more than what the job has written there."""
        return self.hello is not None and self.hello.pid == 0

    @property
    def total_steps(self) -> int | None:
        """The length of the run on the step axis, when the job has told it."""
        return self.hello.total_steps if self.hello is not None else None

    @property
    def x_open(self) -> int:
        """Where the step that is not finished stands on the axis."""
        return self.last_x + self.stride if self.steps else self.last_ordinal + 1

    def x_of(self, ordinal: int) -> int:
        """The axis position of a step by its ordinal: exact for the last thousand, else by the stride."""
        for first, x in reversed(self._recent):
            if first <= ordinal:
                # Steps come in blocks: layers of the newest are mostly told of before these.
                if ordinal - first < len(x):
                    return x[ordinal - first]
                break
        if self._recent:
            return max(0, self.last_x + (ordinal - self.last_ordinal) * self.stride)
        return ordinal

    def place(self, block: StepBlock) -> None:
        """Remember where the steps of a block, the newest one, stand on the axis."""
        self._recent.append((block.ordinal, block.x))
        self._held += block.count
        while self._held - len(self._recent[0][1]) >= RECENT:
            self._held -= len(self._recent.popleft()[1])

    def forget_places(self) -> None:
        """The ordinals begin anew."""
        self._recent.clear()
        self._held = 0

    def open(
        self,
        kind: str,
        claim: Claim,
        *,
        severity: Severity,
        area: str,
        failure_mode: FailureMode | None,
        where: str,
        first_x: int,
        last_x: int | None = None,
    ) -> Finding:
        """Write a finding into the book, or find the one that says this already.

        A finding that an open one explains (`folding.EXPLAINS`) goes to the card of that one, and what this one
        explains goes to its own. The rule that keeps it need not know: it goes on with what it gets.
        """
        rank = self.rank
        finding = Finding(
            id=f"{kind}-{0 if rank is None else rank}-{where}-{first_x}",
            kind=kind,
            severity=severity,
            area=area,
            failure_mode=failure_mode,
            first_step=first_x,
            last_step=first_x if last_x is None else last_x,
            rank=rank,
            where=where,
            claim=claim,
            writer=self.writer,
        )
        slack = max(SLACK_STEPS * self.stride, int(SLACK * (self.last_x - (self.first_x or 0))))
        for name in CAUSES.get(kind, ()):
            for cause in self.book.find(name, self.writer):
                if takes_over(kind, first_x, name, cause.first_step, self.stride):
                    continue
                if kind in FROM_THE_START or first_x >= cause.first_step - slack:
                    self.book.explain(cause, finding)
                    return finding
        finding = self.book.add(finding)
        for name in EXPLAINS.get(kind, ()):
            for symptom in self.book.find(name, self.writer):
                together = takes_over(kind, first_x, name, symptom.first_step, self.stride)
                if together or name in FROM_THE_START or symptom.first_step >= first_x - slack:
                    self.book.explain(finding, symptom)
        return finding

    def is_told(self, finding: Finding) -> bool:
        """Whether it stands on a card that is open: its own, or that of its cause."""
        return self._card(finding).status == "open"

    def _card(self, finding: Finding) -> Finding:
        """The one on whose card it is told."""
        return next((known for known in self.book if any(one is finding for one in known.explained)), finding)

    def value(self, known: Threshold) -> float:
        """A threshold as the user has set it, else its default."""
        return self.thresholds[known]

    def is_open(self, *kinds: str) -> bool:
        """Whether this rank has an open finding of one of the kinds."""
        return any(self.book.find(kind, self.writer) for kind in kinds)

    def take_in(self, finding: Finding, symptoms: Iterable[Finding]) -> None:
        """Tell these on the card of `finding`, or on that of its cause, whenever they began: it says the same better.

        What it weighs, it weighs for itself.
        """
        card = self._card(finding)
        for symptom in symptoms:
            if symptom is not card and symptom in self.book:
                symptom.severity = "info"
                self.book.explain(card, symptom)
