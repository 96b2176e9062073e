"""Text that is safe to draw and keeps its width: foreign names made harmless, numbers that do not make a row dance.

Pure standard library, so the rasterizer may use it too. After `safe` every character is one or two cells wide and
terminal, rich and this module agree on which; a test holds that for all of Unicode.
"""

from __future__ import annotations

import math
import re
import unicodedata
from datetime import datetime
from functools import lru_cache
from typing import Literal

ELLIPSIS = "…"
UNKNOWN = "?"

_ESCAPES = re.compile(
    r"(?:\x1b\]|\x9d).*?(?:\x07|\x1b\\|\x9c|$)"  # operating system commands: window titles, hyperlinks
    r"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f]).*?(?:\x1b\\|\x9c|$)"  # device control and other strings
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # control sequences: colours, cursor movement
    r"|\x1b[ -/]*[0-~]?",  # the short ones
    re.DOTALL,
)
_SPACES = re.compile(r"\s+")
# Widths on which Unicode versions differ (hexagrams, trigrams, counting rods), and Hangul letters that join their
# neighbours: a terminal may draw them in any width, so they are not drawn at all.
_DOUBTFUL = re.compile(
    "[\u1160-\u11ff\u2630-\u2637\u268a-\u268f\u302e\u302f\u3164\u4dc0-\u4dff\ud7b0-\ud7ff\uffa0\U0001d300-\U0001d37f]"
)
_SKIN_TONES = re.compile("[\U0001f3fb-\U0001f3ff]")


@lru_cache(maxsize=2048)
def safe(text: str) -> str:
    """`text` on one line, without escape sequences, control, joining and combining characters.

    Accents that have a composed form are kept; emoji sequences fall apart into their single emoji; what has no certain
    width becomes "?". White space of any kind becomes one space.
    """
    if text.isascii() and text.isprintable():
        return text
    text = unicodedata.normalize("NFC", _ESCAPES.sub("", text))
    text = _SKIN_TONES.sub("", _SPACES.sub(" ", text))
    return "".join(_harmless(character) for character in _DOUBTFUL.sub(UNKNOWN, text))


def _harmless(character: str) -> str:
    """The character itself, "?" for one that has no certain width, "" for one that has none."""
    category = unicodedata.category(character)
    if category in ("Cn", "Co", "Cs"):
        return UNKNOWN
    return "" if category[0] in "CM" else character


@lru_cache(maxsize=2048)
def cell_width(text: str) -> int:
    """Cells that cleaned `text` takes in a terminal: two for each wide East Asian character or emoji."""
    if text.isascii():
        return len(text)
    return sum(map(character_width, text))


def character_width(character: str) -> int:
    """1 or 2: the cells of one character of a cleaned text."""
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def clip(text: str, width: int, *, left: bool = False, ellipsis: str = ELLIPSIS) -> str:
    """Cleaned `text` in at most `width` cells; what is cut off is shown by "…", at the left end with `left`."""
    text = safe(text)
    if cell_width(text) <= width:
        return text
    if width <= len(ellipsis):
        return ellipsis[: max(width, 0)]
    room = width - len(ellipsis)
    kept: list[str] = []
    for character in reversed(text) if left else text:
        room -= character_width(character)
        if room < 0:
            break
        kept.append(character)
    return ellipsis + "".join(reversed(kept)) if left else "".join(kept) + ellipsis


def dotted(name: str, width: int) -> str:
    """A dotted name in at most `width` cells, its numbers and both ends of its last part kept as long as may be.

    The leading parts lose all but their first letter, the first of them first: `b.0.attention.weight`; then the last
    part loses its middle: `b.0.attent…_norm`.
    """
    parts = safe(name).split(".")
    for place in range(len(parts) - 1):
        if cell_width(".".join(parts)) <= width:
            break
        if not parts[place].isdigit():
            parts[place] = parts[place][:1]
    head = "".join(part + "." for part in parts[:-1])
    room = width - cell_width(head)
    if cell_width(parts[-1]) <= room:
        return head + parts[-1]
    if room < 4:
        return clip(head + parts[-1], width, left=True)
    tail = clip(parts[-1], room // 2, left=True)
    return head + clip(parts[-1], room - cell_width(tail), ellipsis="") + tail


def fit(text: str, width: int, *, right: bool = False, left: bool = False, ellipsis: str = ELLIPSIS) -> str:
    """`clip`, then padded to exactly `width` cells: aligned left, or right with `right`."""
    text = clip(text, width, left=left, ellipsis=ellipsis)
    padding = " " * (width - cell_width(text))
    return padding + text if right else text + padding


def number(value: float | None, width: int = 0) -> str:
    """Three or four significant digits in at most seven cells (eight when negative), right-aligned in `width`.

    `2.345`, `1.23e-4`, `12.3k`, `1.23M`; None, which is "not measured", is "–", never 0.
    """
    return _number(value).rjust(width)


_UNITS = ((1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T"))


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    size = abs(value)
    if size == 0:
        return "0"
    if size < 9.995e-3 or size >= 9.995e14:
        return exponent(value, 2 if 9.995e-10 < size < 1 else 1 if 9.95e-100 < size < 9.95e99 else 0)
    if size < 9999.5:
        decimals = 3 if size < 9.9995 else 2 if size < 99.995 else 1 if size < 999.95 else 0
        return f"{value:.{4 if size < 0.99995 else decimals}f}"
    for scale, unit in _UNITS:
        if size < scale * 999.5:
            return three_digits(value / scale) + unit
    return exponent(value)


def exponent(value: float, decimals: int = 2) -> str:
    """`1.23e-4`: an exponent without the plus sign and the zeros that only cost cells."""
    mantissa, power = f"{value:.{decimals}e}".split("e")
    return f"{mantissa}e{int(power)}"


def three_digits(value: float) -> str:
    """`1.23`, `12.3`, `123`: always three digits, for values below 1000 beside a unit."""
    size = abs(value)
    return f"{value:.{2 if size < 9.995 else 1 if size < 99.95 else 0}f}"


def count(value: float | None, width: int = 0) -> str:
    """A whole number with thousands separators: `12,340`; None is "–"."""
    return ("–" if value is None else f"{int(value):,}").rjust(width)


def percent(share: float | None, width: int = 0) -> str:
    """A share of 1 as per cent, `41%`, with a decimal below ten: `0.3%`; None is "–"."""
    if share is None or not math.isfinite(share):
        return "–".rjust(width)
    value = 100.0 * share
    return f"{value:.{1 if abs(value) < 9.95 else 0}f}%".rjust(width)


def moment(wall: float | None, form: str) -> str:
    """The local time at `wall` seconds of the epoch, as `strftime` has it; "?" for what no calendar has."""
    if wall is None:
        return "–"
    try:
        return f"{datetime.fromtimestamp(wall):{form}}"
    except (ValueError, OverflowError, OSError):
        return UNKNOWN


def duration(seconds: float | None, width: int = 0) -> str:
    """A time span in at most seven cells: `850 µs`, `12.3 ms`, `4.20 s`, `3m 07s`, `1h 02m`, `3d 04h`; None is "–"."""
    return _duration(seconds).rjust(width)


def _duration(seconds: float | None) -> str:
    if seconds is None or not math.isfinite(seconds):
        return "–"
    if seconds < 0:
        return "-" + _duration(-seconds)
    if seconds < 59.95:
        for scale, unit in ((1e-6, "µs"), (1e-3, "ms")):
            if seconds < scale * 999.5:
                return f"{three_digits(seconds / scale)} {unit}"
        return f"{three_digits(seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}h {minutes:02d}m"
    return f"{hours // 24}d {hours % 24:02d}h"


_BYTES = {
    "binary": tuple((1024.0 ** (power + 1), f"{letter}iB") for power, letter in enumerate("KMGTP")),
    "decimal": tuple((1000.0 ** (power + 1), f"{letter}B") for power, letter in enumerate("kMGTP")),
}
_bytes = _BYTES["binary"]


def use_bytes(units: Literal["binary", "decimal"]) -> None:
    """Write bytes in these units from now on, in all of this process: GiB or GB."""
    global _bytes
    _bytes = _BYTES[units]


def byte_unit(amount: float) -> tuple[float, str]:
    """The unit in which so many bytes are written: how many bytes it has, and its name."""
    return next((unit for unit in _bytes if abs(amount) < 999.5 * unit[0]), _bytes[-1])


def size(amount: float | None, width: int = 0) -> str:
    """Bytes in at most eight cells: `512 B`, `61.2 GiB`, by `use_bytes` `65.7 GB`; None is "–"."""
    if amount is None or not math.isfinite(amount):
        return "–".rjust(width)
    if abs(amount) < 1000:
        return f"{amount:.0f} B".rjust(width)
    scale, name = byte_unit(amount)
    return f"{three_digits(amount / scale)} {name}".rjust(width)


def rate(per_second: float | None, width: int = 0) -> str:
    """How often a second, `3.10/s`; below 0.1 a second it is told by the minute or hour instead; None is "–"."""
    if per_second is None or not math.isfinite(per_second):
        return "–".rjust(width)
    if per_second >= 0.0995 or per_second <= 0:
        text = f"{three_digits(per_second) if per_second < 999.5 else number(per_second)}/s"
    elif per_second * 60 >= 0.0995:
        text = f"{three_digits(per_second * 60)}/min"
    else:
        text = f"{three_digits(per_second * 3600)}/h"
    return text.rjust(width)
