"""`TextSource`: the records of what a training prints into a pipe."""

from __future__ import annotations

import re
import time
from pathlib import Path

from ..base import Arrival, SourceError, SourceStatus
from ..evidence import State
from ..pipe import Pipe
from ..runs import RunEntry
from .reader import Reader, Row
from .remarks import remarks
from .roles import Role
from .sniff import HINT, is_binary, piped
from .source import GROWING, HOLD, RowWriter, ago, unreadable
from .text import TextReader


class TextSource:
    """Reads lines of text from a pipe: `python train.py 2>&1 | ntstop -`. One thread must make all calls."""

    def __init__(
        self, pipe: Pipe, roles: dict[str, Role] | None = None, pattern: re.Pattern[str] | None = None
    ) -> None:
        self._pipe = pipe
        self._reader: Reader = TextReader(pattern)
        self._text = pattern is None
        """It may be in a format of its own; a pattern is for lines."""
        self._writer = RowWriter("stdin", roles)
        self._ended = False
        """All that came before the end has been given on."""
        self._began = self._found = False
        """There were numbers."""
        self._heard = time.time()
        self._settle_at = 0.0

    @property
    def status(self) -> SourceStatus:
        """How the reading goes; complete once the pipe has ended."""
        bad = self._reader.facts.bad
        problem = unreadable(bad)
        return SourceStatus(
            skipped=bad, live=not self._ended, complete=self._ended, problem=self._pipe.problem or problem
        )

    def poll(self, timeout: float) -> list[Arrival]:
        """Records of what the pipe has brought; see `Source`."""
        deadline = time.monotonic() + timeout
        while True:
            data = self._pipe.read(deadline - time.monotonic())
            arrivals = self._read(data)
            if arrivals or time.monotonic() >= deadline:
                return arrivals

    def _read(self, data: bytes) -> list[Arrival]:
        if data:
            if not self._began:
                self._begin(data)
            self._heard = time.time()
            arrivals = self._give(self._reader.feed(data))
            now = time.monotonic()
            if now >= self._settle_at:
                self._settle_at = now + HOLD
                arrivals += self._writer.settle()
            return arrivals
        if self._ended:
            return []
        if not self._pipe.ended:
            return self._writer.flush()
        self._ended = True
        arrivals = self._give(self._reader.end()) + self._writer.flush()
        if not self._found:
            raise SourceError(f"no numbers of a training came through the pipe; {HINT}")
        return arrivals

    def _begin(self, data: bytes) -> None:
        """Choose the reader, by the first bytes that came."""
        self._began = True
        make = piped(data) if self._text else None
        if make is not None:
            self._reader = make()
        elif is_binary(data):
            raise SourceError("what comes through the pipe is binary; it takes frames of ntstop relay, or text")

    def _give(self, rows: list[Row]) -> list[Arrival]:
        self._found = self._found or bool(rows)
        self._writer.total_steps = self._reader.facts.total_steps
        return self._writer.rows(rows)

    @property
    def remarks(self) -> list[str]:
        """What was assumed and what is missing; one line each."""
        return remarks(self._writer.assembler, self._reader.facts.seconds)

    def refresh(self) -> None:
        """A pipe is always looked at."""

    def close(self) -> None:
        """Whoever writes is told so by a broken pipe."""
        self._pipe.close()

    def evidence(self) -> RunEntry:
        """Whether the pipe speaks."""
        silence = max(0.0, time.time() - self._heard)
        state: State = "growing" if silence < GROWING and not self._ended else "quiet"
        why = "the pipe speaks" if state == "growing" else f"nothing has come for {ago(silence)}"
        if self._ended:
            why = "the pipe has ended"
        roles = self._writer.roles
        return RunEntry("stdin", Path("-"), state=state, why="; ".join(part for part in (why, roles) if part),
                        last_activity=self._heard, ranks=1)  # fmt: skip
