"""Tells of new findings: runs a command of the user's own once for each, with the finding as JSON on its stdin.

Nobody waits for the command: it runs in a thread, one at a time, and is ended after its time. What was told is
remembered with the viewers' state, so that a second viewer, or the next, does not repeat it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass

from ntstop.diagnosis.finding import WEIGHT, Finding
from ntstop.diagnosis.report import finding_json
from ntstop.session import Session
from ntstop.settings import command_words
from ntstop.viewer_state import StateError

TIMEOUT = 10.0
"""Seconds that a command may take, unless the configuration says otherwise."""
_LOOK = 0.5
"""Seconds between two looks for new findings."""
_LEAVE = 1.0
"""Seconds that a viewer which ends gives the command that runs."""
_NAP = 0.1
"""Seconds between two looks at whether the viewer ends."""
_GIVE_UP = 3
"""Failures in a row after which nothing more is tried: a mail server that is gone is not asked a thousand times."""
_ACTIVE = ("live", "growing", "waiting", "stopped")
"""States of a run whose findings are news."""


@dataclass(frozen=True, slots=True)
class Told:
    """A command to run for each new finding. `timeout` in seconds."""

    command: str
    timeout: float = TIMEOUT


class Notifier:
    """Tells of the findings of one session: as a context, beside a viewer; with `tell`, once, in the calling thread.

    Raises `ValueError` when the command cannot be parted into words.
    """

    def __init__(self, session: Session, told: Told) -> None:
        self.session = session
        self._told = told
        self._words = command_words(told.command)
        self._mine: set[str] = set()
        """Ids of findings that need no further look."""
        self._failures = 0
        self._news = False
        """Whether the run went on while it was watched: then its end is news too."""
        self._leave_by = 0.0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def problem(self) -> str:
        """One line about the last that failed, "" while none has."""
        return self.session.notice

    def __enter__(self) -> Notifier:
        self._thread = threading.Thread(target=self._watch, name="ntstop-notify", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """End the watch; a command that runs is given a second more."""
        self._leave_by = time.monotonic() + _LEAVE
        self._stop.set()
        if self._thread is not None:
            self._thread.join(2 * _LEAVE)

    def tell(self) -> None:
        """Run the command for each open finding at warning or above that nobody was told of, nor has acknowledged."""
        while not self._stop.is_set() and (new := self._next()) is not None:
            self._one(*new)

    def _watch(self) -> None:
        seen = -1
        while not self._stop.wait(_LOOK):
            session = self.session
            entry = session.entry
            # What is found on the way through an old recording is no news, nor what a replay finds again.
            if session.version == seen or not session.status.complete or session.replay is not None:
                continue
            self._news = self._news or (entry is not None and entry.state in _ACTIVE)
            if not self._news:
                continue
            seen = session.version
            self.tell()

    def _next(self) -> tuple[str, bytes] | None:
        """The weightiest finding that nobody was told of, as JSON, claimed for this viewer."""
        if self._failures >= _GIVE_UP:
            return None
        with self.session.lock:
            findings = [finding for finding in self.session.findings if _is_news(finding)]
            texts = {
                finding.id: finding_json(self.session.engine, finding)
                for finding in findings
                if finding.id not in self._mine
            }
        for finding, text in texts.items():
            self._mine.add(finding)
            if self.session.kept.note(finding) is not None:
                continue
            try:
                if self.session.kept.claim(finding):
                    return finding, text
            except StateError as error:
                # Better told twice than never.
                self.session.notice = f"notify: what was told is not kept: {error}"
                return finding, text
        return None

    def _one(self, finding: str, text: bytes) -> None:
        failure = self._run(text)
        self._failures = self._failures + 1 if failure else 0
        if failure:
            end = "; nothing more is tried" if self._failures >= _GIVE_UP else ""
            self.session.notice = f"notify: {failure}: {self._told.command} ({finding}){end}"

    def _run(self, text: bytes) -> str:
        """Run the command with `text` on its stdin; why it failed, or ""."""
        with tempfile.TemporaryFile() as stdin:
            # A file, for a command that does not read its stdin would let a pipe fill; and what it prints goes nowhere,
            # for one that floods would fill this process.
            stdin.write(text + b"\n")
            stdin.seek(0)
            try:
                process = subprocess.Popen(
                    self._words,
                    stdin=stdin,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                return getattr(error, "strerror", None) or str(error)
        code = self._wait(process)
        if code is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return f"ended after {self._told.timeout:g} s" if not self._stop.is_set() else "ended with the viewer"
        return f"exit code {code}" if code else ""

    def _wait(self, process: subprocess.Popen[bytes]) -> int | None:
        """Its exit code; None where its time is over, or that of this viewer."""
        until = time.monotonic() + self._told.timeout
        while time.monotonic() < until:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(_NAP)
            if self._stop.is_set():
                until = min(until, self._leave_by)
        return None


def _is_news(finding: Finding) -> bool:
    return finding.status == "open" and WEIGHT[finding.severity] >= WEIGHT["warning"]
