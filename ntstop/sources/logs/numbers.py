"""Numbers as people and programs write them."""

from __future__ import annotations

import math
import re
from datetime import datetime

_GROUPED = re.compile(r"[-+]?\d{1,3}(,\d{3})+(\.\d*)?([eE][-+]?\d+)?")
_WORDS = {"nan": math.nan, "inf": math.inf, "infinity": math.inf}
_LONGEST = 64
_EPOCH_SECONDS, _EPOCH_MILLISECONDS = 1e9, 1e12
"""Numbers above are Unix times (from 2001 on) in seconds, or in milliseconds."""


def number(text: str) -> float | None:
    """The number that `text` is: "3.2", "1e-4", "1,234.5", "nan", "-Infinity"; None when it is none ("3e", "1_0")."""
    try:
        if "_" not in text:
            return float(text)
    except ValueError:
        pass
    text = text.strip()
    if len(text) <= _LONGEST and _GROUPED.fullmatch(text):
        return float(text.replace(",", ""))
    return None


def plain(value: object) -> float | None:
    """A value out of JSON as a number: numbers, and text that is one (fairseq quotes its own); None for all else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:
            return None
    return number(value) if isinstance(value, str) and len(value) <= _LONGEST else None


def integer(value: float | None) -> int | None:
    """A step: a whole number that fits 63 bits; None for all else."""
    if value is None or not math.isfinite(value) or value != int(value) or abs(value) >= 2.0**62:
        return None
    return int(value)


def unix_time(value: object) -> float | None:
    """Unix seconds out of seconds, milliseconds or an ISO date (local time where it names no zone)."""
    seconds = plain(value)
    if seconds is not None:
        if seconds >= _EPOCH_MILLISECONDS:
            seconds /= 1000.0
        return seconds if _EPOCH_SECONDS <= seconds < _EPOCH_MILLISECONDS else None
    if not isinstance(value, str) or len(value) > _LONGEST:
        return None
    try:
        return datetime.fromisoformat(value.strip().replace(",", ".")).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
