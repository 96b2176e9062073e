"""What `ntstop explain` prints: a kind of finding in words, with the numbers that it is judged by. Pure text."""

from __future__ import annotations

import difflib
import math
import textwrap
from collections.abc import Iterable, Iterator
from typing import Final, get_args

from .catalogue import KINDS, Family, Kind
from .folding import CAUSES, EXPLAINS
from .rules import load
from .thresholds import REGISTRY, Threshold, Thresholds

WIDTH: Final = 100
"""Columns of the text where the terminal has no fewer."""
_LABEL = 14
"""Columns of the words at the left."""


def families(width: int = WIDTH) -> str:
    """Every kind that can be found, by family, each with the first sentence of what it means."""
    load()
    lines: list[str] = []
    longest = max(map(len, KINDS), default=0) + 2
    for family in get_args(Family):
        kinds = [kind for kind in KINDS.values() if kind.family == family]
        if kinds:
            lines += ["", family] if lines else [family]
        for kind in kinds:
            lines += _hang(f"  {kind.name:<{longest}}", _first_sentence(kind.meaning), width)
    return "\n".join(lines)


def explain(name: str, thresholds: Thresholds, config: str, width: int = WIDTH) -> str:
    """One kind: what it means, what is looked at, and its thresholds with their sources and how to change them.

    `config` names the file in which they are set. Raises `ValueError` with one line where there is no such kind.
    """
    load()
    kind = KINDS.get(name)
    if kind is None:
        near = difflib.get_close_matches(name, KINDS, 1)
        hint = f"did you mean {near[0]}?" if near else "`ntstop explain` lists them"
        raise ValueError(f"{name}: there is no kind of finding of this name; {hint}")
    return "\n".join([*_about(kind, width), *_numbers(kind, thresholds, config, width)])


def _about(kind: Kind, width: int) -> Iterator[str]:
    yield f"{kind.name}  ({kind.family})"
    yield ""
    yield from textwrap.wrap(kind.meaning, width, break_on_hyphens=False)
    yield ""
    for label, text in (
        ("looked at", kind.detector),
        ("severity", kind.severity),
        ("look into", kind.area),
        ("explains", _known(EXPLAINS.get(kind.name, ()))),
        ("explained by", _known(CAUSES.get(kind.name, ()))),
    ):
        if text:
            yield from _hang(f"{label:<{_LABEL}}", text, width)


def _numbers(kind: Kind, thresholds: Thresholds, config: str, width: int) -> Iterator[str]:
    known = [threshold for threshold in REGISTRY.values() if threshold.kind == kind.name]
    yield ""
    if not known:
        yield "It has no thresholds to set."
        return
    yield "thresholds"
    for threshold in known:
        yield f"  {threshold.name} = {_value(threshold, thresholds[threshold])}"
        for text in (threshold.meaning, f"Source: {threshold.source}"):
            yield from textwrap.wrap(
                text, width, initial_indent="      ", subsequent_indent="      ", break_on_hyphens=False
            )
    example = f"{known[0].name} = {_number(thresholds[known[0]])}"
    yield ""
    yield f"To change one, in {config}:"
    yield "  [thresholds]"
    yield f"  {example}"
    yield f"or for one call: --threshold {example.replace(' = ', '=')}"


def _value(threshold: Threshold, value: float) -> str:
    """The value in force with its unit, the default where it is another, and what is allowed."""
    notes = [f"default {_number(threshold.value)}"] if value != threshold.value else []
    high = "" if math.isinf(threshold.high) else f" to {_number(threshold.high)}"
    notes.append(f"{_number(threshold.low)}{high or ' and above'}")
    unit = f" {threshold.unit}" if threshold.unit else ""
    return f"{_number(value)}{unit}  ({', '.join(notes)})"


def _number(value: float) -> str:
    return f"{value:.6g}"


def _known(names: Iterable[str]) -> str:
    """Of these kinds those that a rule finds."""
    return ", ".join(name for name in names if name in KINDS)


def _first_sentence(text: str) -> str:
    head, dot, _ = text.partition(". ")
    return head + dot.strip()


def _hang(label: str, text: str, width: int) -> list[str]:
    """`text` behind `label`, its further lines under its first word."""
    return textwrap.wrap(text, width, initial_indent=label, subsequent_indent=" " * len(label), break_on_hyphens=False)
