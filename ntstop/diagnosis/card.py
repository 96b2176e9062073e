"""The card of a finding: its eight fields, as data for a screen and as Markdown for a file."""

from __future__ import annotations

import re
from typing import Final

from .evidence import severity_word
from .finding import Evidence, Finding
from .reproduction import Reproduction

_CODE: Final = re.compile(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)")
_MARKUP: Final = re.compile(r"[\\`*<>\[\]~|]|(?<![^\W_])_|_(?![^\W_])|^[#+-](?=\s)")
"""What Markdown would take for markup; an underscore within a word is none."""


_READ_FIRST: Final = ("Symptom", "Hypothesis", "Fix", "Evidence")
"""On a screen of 24 lines no more than these are seen before scrolling."""


def fields(finding: Finding, how: Reproduction) -> list[tuple[str, list[str]]]:
    """(title, lines) of the card, in the fixed order of all cards."""
    claim = finding.claim
    return [
        ("Symptom", [claim.symptom, *(line for _, line in followers(finding))]),
        ("Reproduction", how.lines()),
        ("Failure mode", [f"{finding.failure_mode or 'none'}; how it is judged: `ntstop explain {finding.kind}`"]),
        ("Hypothesis", [claim.hypothesis]),
        ("Evidence", [evidence_line(item) for item in claim.evidence] or ["none"]),
        ("Fix", [claim.fix]),
        ("Confidence", [claim.confidence]),
        ("Open questions", claim.open_questions or ["none"]),
    ]


def fields_on_screen(finding: Finding, how: Reproduction) -> list[tuple[str, list[str]]]:
    """The same fields in the order in which they are looked for: how to repeat it comes last."""
    known = dict(fields(finding, how))
    last = ("Failure mode", "Reproduction")
    between = [name for name in known if name not in (*_READ_FIRST, *last)]
    return [(name, known[name]) for name in (*_READ_FIRST, *between, *last)]


def followers(finding: Finding) -> list[tuple[Finding, str]]:
    """Of each kind of finding that this one explains the first, with a line that says how many more there are."""
    kinds: dict[str, list[Finding]] = {}
    for symptom in finding.explained:
        kinds.setdefault(symptom.kind, []).append(symptom)
    lines = []
    for kind, symptoms in kinds.items():
        first = min(symptoms, key=lambda symptom: symptom.first_step)
        where = f" in {first.where}" if first.where else ""
        more = f" (and {len(symptoms) - 1} more of it)" if len(symptoms) > 1 else ""
        line = f"with it, {kind}{where} from step {first.first_step:,}: {first.symptom}{more}"
        lines.append((first, line))
    return lines


def title(finding: Finding, *, has_ended: bool = False) -> str:
    """Severity, kind, where and since when. `has_ended`: nothing more comes of the run, so nothing is open in it."""
    where = f" in {finding.where}" if finding.where else ""
    rank = f", rank {finding.rank}" if finding.rank is not None else ""
    steps = f"step {finding.first_step:,}"
    if finding.last_step > finding.first_step:
        steps += f" to {finding.last_step:,}"
    status = "the end" if has_ended and finding.status == "open" else finding.status
    return f"{severity_word(finding.severity)}: {finding.kind}{where}{rank} ({steps}, {status})"


def acknowledged(note: str) -> str:
    """That somebody has seen it, with what they said."""
    return f"acknowledged: {note}" if note else "acknowledged"


def evidence_line(item: Evidence) -> str:
    """The sentence, with how it is known where that is not by measurement."""
    return item.text if item.basis == "measured" else f"{item.text} ({item.basis})"


def markdown(finding: Finding, how: Reproduction, note: str | None = None, *, has_ended: bool = False) -> str:
    """The card as a Markdown section. `note`: what somebody has said who acknowledged it; None: nobody has.

    Names come from the job, and what is pasted into an issue must not become markup there.
    """
    parts = [f"## {literal(title(finding, has_ended=has_ended))}{'' if how.repeatable else ' · *unreproducible*'}", ""]
    if note is not None:
        parts += [f"> {literal(acknowledged(note))}", ""]
    for name, lines in fields(finding, how):
        if len(lines) == 1:
            parts.append(f"**{name}.** {literal(lines[0])}")
        else:
            parts.append(f"**{name}.**")
            parts.append("")
            parts.extend(f"- {literal(text)}" for text in lines)
        parts.append("")
    return "\n".join(parts)


def literal(text: str) -> str:
    """`text` so that Markdown shows it as it is; what stands between backticks is code, and stays so."""
    text = " ".join(text.split())
    pieces, at = [], 0
    for code in _CODE.finditer(text):
        pieces += [_MARKUP.sub(r"\\\g<0>", text[at : code.start()]), code.group()]
        at = code.end()
    return "".join([*pieces, _MARKUP.sub(r"\\\g<0>", text[at:])])
