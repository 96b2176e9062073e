"""The card of a finding: its eight fields, as data for a screen and as Markdown for a file."""

from __future__ import annotations

from .evidence import severity_word
from .finding import Evidence, Finding
from .reproduction import Reproduction


def fields(finding: Finding, how: Reproduction) -> list[tuple[str, list[str]]]:
    """(title, lines) of the card, in the fixed order of all cards."""
    claim = finding.claim
    return [
        ("Symptom", [claim.symptom, *map(follower, finding.explained)]),
        ("Reproduction", [how.sentence()]),
        ("Failure mode", [finding.failure_mode or "none"]),
        ("Hypothesis", [claim.hypothesis]),
        ("Evidence", [evidence_line(item) for item in claim.evidence] or ["none"]),
        ("Fix", [claim.fix]),
        ("Confidence", [claim.confidence]),
        ("Open questions", claim.open_questions or ["none"]),
    ]


def follower(finding: Finding) -> str:
    """One line on a finding that another one explains."""
    where = f" in {finding.where}" if finding.where else ""
    return f"with it, {finding.kind}{where} from step {finding.first_step:,}: {finding.symptom}"


def title(finding: Finding) -> str:
    """Severity, kind, where and since when."""
    where = f" in {finding.where}" if finding.where else ""
    rank = f", rank {finding.rank}" if finding.rank is not None else ""
    steps = f"step {finding.first_step:,}"
    if finding.last_step > finding.first_step:
        steps += f" to {finding.last_step:,}"
    return f"{severity_word(finding.severity)}: {finding.kind}{where}{rank} ({steps}, {finding.status})"


def acknowledged(note: str) -> str:
    """That somebody has seen it, with what they said."""
    return f"acknowledged: {note}" if note else "acknowledged"


def evidence_line(item: Evidence) -> str:
    """The sentence, with how it is known where that is not by measurement."""
    return item.text if item.basis == "measured" else f"{item.text} ({item.basis})"


def markdown(finding: Finding, how: Reproduction, note: str | None = None) -> str:
    """The card as a Markdown section. `note`: what somebody has said who acknowledged it; None: nobody has."""
    parts = [f"## {title(finding)}{'' if how.repeatable else ' · *unreproducible*'}", ""]
    if note is not None:
        parts += [f"> {acknowledged(note)}", ""]
    for name, lines in fields(finding, how):
        if len(lines) == 1:
            parts.append(f"**{name}.** {lines[0]}")
        else:
            parts.append(f"**{name}.**")
            parts.append("")
            parts.extend(f"- {text}" for text in lines)
        parts.append("")
    return "\n".join(parts)
