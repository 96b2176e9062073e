"""What stands for a character on a terminal that draws nothing but ASCII."""

from __future__ import annotations

from ...text import UNKNOWN, character_width


class _Alike(dict[int, str]):
    """Code of a character to what takes its place, in as many cells; of one that is like nothing, "?" in each."""

    def __missing__(self, code: int) -> str:
        if code < 128:
            return chr(code)
        self[code] = found = _frame(code) or UNKNOWN * character_width(chr(code))
        return found


def _frame(code: int) -> str:
    """Of lines and blocks, which frame a dialog and fill a scroll bar; "" for anything else."""
    if 0x2500 <= code < 0x2580:
        return "-" if chr(code) in "─━┄┅┈┉╌╍═" else "|" if chr(code) in "│┃┆┇┊┋╎╏║" else "+"
    if 0x2580 <= code < 0x25A0:
        return "|" if chr(code) in "▉▊▋▌▍▎▏▐▕" else "#"
    return ""


_ALIKE = _Alike(zip(map(ord, "…×–—µ≤·←→"), "~x--u<.<>", strict=True))


def ascii_of(text: str) -> str:
    """`text` in ASCII and as wide; escape sequences stay as they are."""
    return text if text.isascii() else text.translate(_ALIKE)
