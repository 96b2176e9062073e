"""`ntstop diagnose`: one JSON object a line for programs, Markdown cards for people. Part of the interface.

JSON has no NaN: a value that is not finite is null, and its evidence's `text` says "NaN" or "+Inf".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import starmap
from typing import Any

import msgspec

from . import card
from .engine import Engine
from .finding import Basis, Evidence, Finding, weight
from .reproduction import Reproduction, reproduction

SCHEMA_VERSION = 1


class RunInfo(msgspec.Struct):
    """The `run` of a report. `state`: as in `ntstop.sources.evidence.State`; `source`: live or recording."""

    id: str
    state: str
    source: str
    ranks: int
    first_step: int | None = None
    last_step: int | None = None
    host: str | None = None
    title: str | None = None
    attempt: int | None = None
    remarks: list[str] = []
    """What was assumed of a log, and what is missing in it."""


class EvidenceEntry(msgspec.Struct):
    """One evidence of a finding in a report."""

    text: str
    series: str | None
    step: int | None
    value: float | None
    unit: str
    basis: Basis


class FindingEntry(msgspec.Struct):
    """One finding in a report. `confidence` is a sentence that begins with high, medium or low."""

    id: str
    kind: str
    severity: str
    area: str
    failure_mode: str | None
    status: str
    first_step: int
    last_step: int
    rank: int | None
    where: str
    symptom: str
    evidence: list[EvidenceEntry]
    hypothesis: str
    fix: str
    confidence: str
    open_questions: list[str]
    reproduction: Reproduction


class Report(msgspec.Struct):
    """What is said of one target, the weightiest finding first."""

    schema_version: int
    target: str
    run: RunInfo
    findings: list[FindingEntry]

    def to_json(self) -> bytes:
        """One line, without its end."""
        return msgspec.json.encode(self, enc_hook=_plain)


def report(target: str, run: RunInfo, engine: Engine) -> Report:
    """What `engine` knows of `run`, which the user called `target`."""
    # The word of a command line may be any bytes; JSON may not.
    target = target.encode("utf-8", "replace").decode()
    return Report(
        SCHEMA_VERSION, target, run, [_entry(finding, reproduction_of(engine, finding)) for finding in engine.findings]
    )


def reproduction_of(engine: Engine, finding: Finding) -> Reproduction:
    """How to run again what the finding is about."""
    return reproduction(engine.hello_of(finding))


def finding_json(engine: Engine, finding: Finding) -> bytes:
    """One finding as it stands in the JSON of a report; one line, without its end."""
    return msgspec.json.encode(_entry(finding, reproduction_of(engine, finding)), enc_hook=_plain)


def exit_code(findings: Iterable[Finding | FindingEntry]) -> int:
    """1 with something at warning or above, else 0. (2, a target that cannot be read, is the caller's.)"""
    return int(any(finding.severity in ("warning", "critical") for finding in findings))


def summary(findings: Sequence[Finding]) -> str:
    """A short list for a terminal: glyph and word, kind, where, step, symptom; one line a finding."""
    if not findings:
        return "nothing found"
    return "\n".join(line(finding) for finding in sorted(findings, key=weight))


GLYPHS = {"critical": "✖ CRIT", "warning": "▲ WARN", "info": "· info"}


def line(finding: Finding, note: str | None = None) -> str:
    """One finding in one line. `note`: what somebody has said who acknowledged it; None: nobody has."""
    rank = f" rank {finding.rank}" if finding.rank is not None else ""
    state = "" if finding.status == "open" else " (resolved)"
    where = f" [{finding.where}]" if finding.where else ""
    label = GLYPHS[finding.severity]
    known = "" if note is None else f"  [{card.acknowledged(note)}]"
    return f"{label}  {finding.kind}{where}{rank}  step {finding.first_step:,}  {finding.symptom}{state}{known}"


def _entry(finding: Finding, how: Reproduction) -> FindingEntry:
    claim = finding.claim
    return FindingEntry(
        id=finding.id,
        kind=finding.kind,
        severity=finding.severity,
        area=finding.area,
        failure_mode=finding.failure_mode,
        status=finding.status,
        first_step=finding.first_step,
        last_step=finding.last_step,
        rank=finding.rank,
        where=finding.where,
        symptom=claim.symptom,
        evidence=[*map(_evidence, claim.evidence), *starmap(_follower, card.followers(finding))],
        hypothesis=claim.hypothesis,
        fix=claim.fix,
        confidence=claim.confidence,
        open_questions=list(claim.open_questions),
        reproduction=how,
    )


def _evidence(item: Evidence) -> EvidenceEntry:
    value = item.value if item.value is not None and math.isfinite(item.value) else None
    return EvidenceEntry(item.text, item.series, item.step, value, item.unit, item.basis)


def _follower(finding: Finding, line: str) -> EvidenceEntry:
    """A finding that another one explains: it has no entry of its own."""
    return EvidenceEntry(line, finding.where or None, finding.first_step, None, "", "measured")


def _plain(value: Any) -> str:
    """What a user put into the config and JSON does not know."""
    return repr(value)
