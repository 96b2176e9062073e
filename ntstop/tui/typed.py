"""What is typed, pasted or sent by the terminal itself: bytes to textual's messages, whatever the bytes are."""

from __future__ import annotations

import codecs
import time
from collections.abc import Iterator

from textual._time import get_time
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.message import Message

LONGEST_WAIT = 0.1
"""Seconds between two looks at whether a piece of input is overdue."""
_PASTE_SILENCE = 2.0
"""Seconds without more of a paste after which its end is taken for lost."""
_BY_HAND = 8
"""Bytes that a key sends at most; what comes in larger pieces is pasted."""


class Typed:
    """Reads one keyboard. What cannot be understood is lost, and what comes behind it is not.

    A paste whose end never comes, as over a line that broke, would swallow every key from then on; it is ended when
    nothing but single keys has come for a while.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        self._parser = XTermParser()
        self._tail = ""
        self._pasting_at: float | None = None

    @property
    def patience(self) -> float:
        """Seconds until `overdue` is to be asked, when nothing is typed: a lone escape is told from a longer key so."""
        due = self._parser._timeout_time
        return LONGEST_WAIT if due is None else min(max(due - get_time(), 0.0), LONGEST_WAIT)

    def read(self, data: bytes, now: float | None = None) -> Iterator[Message]:
        """What these bytes mean, with those from before; `now`: of the monotonic clock."""
        text = self._decoder.decode(data)
        self._note_paste(text, len(data), time.monotonic() if now is None else now)
        yield from self._fed(text)

    def overdue(self, now: float | None = None) -> Iterator[Message]:
        """What has waited for more in vain."""
        if self._pasting_at is not None and (time.monotonic() if now is None else now) > self._pasting_at:
            self._pasting_at = None
            yield from self._fed(BRACKETED_PASTE_END)
        yield from self._parser.tick()

    def _note_paste(self, text: str, size: int, now: float) -> None:
        seen = self._tail + text
        self._tail = seen[1 - len(BRACKETED_PASTE_START) :]
        begin, end = seen.rfind(BRACKETED_PASTE_START), seen.rfind(BRACKETED_PASTE_END)
        if end > begin:
            self._pasting_at = None
        elif begin >= 0 or (self._pasting_at is not None and size > _BY_HAND):
            self._pasting_at = now + _PASTE_SILENCE

    def _fed(self, text: str) -> Iterator[Message]:
        if not text:  # to the parser that is the end of all input
            return
        try:
            yield from self._parser.feed(text)
        except Exception:
            self._parser, self._pasting_at = XTermParser(), None
