"""What a diagnosis says: a finding, the evidence under it, and the book that all findings of a run are kept in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

Severity = Literal["info", "warning", "critical"]
Status = Literal["open", "resolved"]
Basis = Literal["measured", "estimated", "unchecked"]
FailureMode = Literal["optimization", "generalization", "pipeline"]

WEIGHT: dict[Severity, int] = {"critical": 2, "warning": 1, "info": 0}

OF_NO_STEP = frozenset(("exited", "unreproducible"))
"""Kinds that, where they are only noted, say nothing of a step of the training: they come after the notes that do."""

MAX_SETTLED = 20
"""Resolved findings of severity info kept for one (kind, rank, where); a spiky run of a week stays readable."""


@dataclass(slots=True)
class Evidence:
    """One observation. `value` is in `unit` ("" = none); NaN and Inf stand in `text` too, JSON has null for them."""

    text: str
    series: str | None = None
    step: int | None = None
    value: float | None = None
    unit: str = ""
    basis: Basis = "measured"


@dataclass(slots=True)
class Claim:
    """What a rule has to say once something is true: everything of a finding but its identity and its life."""

    symptom: str
    hypothesis: str
    fix: str
    confidence: str
    """"high", "medium" or "low", then what would change it."""
    evidence: list[Evidence] = field(default_factory=list)
    open_questions: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Finding:
    """One thing that is, or was, wrong. `id` never changes; severity, status, evidence and last_step do.

    `first_step` and `last_step` are on the run's step axis: the job's global step when known, else the ordinal.
    """

    id: str
    kind: str
    severity: Severity
    area: str
    failure_mode: FailureMode | None
    first_step: int
    last_step: int
    rank: int | None
    where: str
    claim: Claim
    writer: int
    status: Status = "open"
    explained: list[Finding] = field(default_factory=list)
    """Findings that this one is the cause of: told on its card, and nowhere else."""

    @property
    def symptom(self) -> str:
        """One line: what is seen, with numbers."""
        return self.claim.symptom

    @property
    def evidence(self) -> list[Evidence]:
        """What the finding rests on, in the order in which it was seen."""
        return self.claim.evidence

    def resolve(self, step: int, severity: Severity | None = None) -> None:
        """It has ended at `step`; from now on it weighs `severity`, if given."""
        self.status = "resolved"
        self.last_step = max(self.last_step, step)
        if severity is not None:
            self.severity = severity


def weight(finding: Finding) -> tuple[int, bool, bool, int, str]:
    """Sort key: the weightiest first, of those what is of a step, then what is still open, then what came first."""
    is_of_no_step = finding.severity == "info" and finding.kind in OF_NO_STEP
    return (-WEIGHT[finding.severity], is_of_no_step, finding.status != "open", finding.first_step, finding.id)


class Book:
    """All findings of a run. A finding is opened once for its (kind, rank, where, first step)."""

    def __init__(self) -> None:
        self._findings: dict[str, Finding] = {}
        self.version = 0
        """Goes up with every change that a viewer should draw."""

    def __iter__(self) -> Iterator[Finding]:
        return iter(sorted(self._findings.values(), key=weight))

    def __len__(self) -> int:
        return len(self._findings)

    def __contains__(self, finding: Finding) -> bool:
        """Whether it is told for itself, and not on the card of another."""
        return self._findings.get(finding.id) is finding

    def add(self, finding: Finding) -> Finding:
        """Keep `finding`; when its id is known already, the one that is kept, open again."""
        known = self._findings.get(finding.id)
        if known is not None:
            known.status, known.severity, known.claim = "open", finding.severity, finding.claim
            finding = known
        else:
            self._findings[finding.id] = finding
            self._forget_settled(finding)
        self.version += 1
        return finding

    def drop(self, finding: Finding) -> None:
        """Take a finding out: another one says the same and more."""
        if self._findings.pop(finding.id, None) is not None:
            self.version += 1

    def changed(self) -> None:
        """A finding was changed in place."""
        self.version += 1

    def explain(self, cause: Finding, symptom: Finding) -> None:
        """Tell `symptom` on the card of `cause`, which then weighs no less, and not for itself."""
        self._findings.pop(symptom.id, None)
        cause.explained = [known for known in cause.explained if known.id != symptom.id]
        cause.explained.extend((symptom, *symptom.explained))
        symptom.explained = []
        if WEIGHT[symptom.severity] > WEIGHT[cause.severity]:
            cause.severity = symptom.severity
        self.version += 1

    def find(self, kind: str, writer: int, *, status: Status | None = "open") -> list[Finding]:
        """Findings of a kind on the rank that `writer` writes for, oldest first."""
        return [
            finding
            for finding in self._findings.values()
            if finding.kind == kind and finding.writer == writer and status in (None, finding.status)
        ]

    def _forget_settled(self, newest: Finding) -> None:
        settled = [
            finding
            for finding in self.find(newest.kind, newest.writer, status="resolved")
            if finding.where == newest.where and finding.severity == "info"
        ]
        for finding in settled[:-MAX_SETTLED]:
            del self._findings[finding.id]
