"""How it ended: a process that said so, and one that is gone."""

from __future__ import annotations

import re

from ntstop_probe import wire

from ..catalogue import kind
from ..context import Context
from ..finding import Claim, Evidence, Finding, Severity
from .base import Rule, rule

DIED = kind(
    "died",
    "liveness",
    "checkpoint/recovery",
    meaning="The process is gone without having said so: killed, or crashed outside Python.",
    detector="Its pid and start time on its own host, and no exit record; on another host it is only stale.",
    severity="critical; warning where a later attempt has gone on.",
)
EXITED = kind(
    "exited",
    "liveness",
    "checkpoint/recovery",
    meaning="The process has ended and said so, with its exit code and the exception that ended it.",
    detector="Its exit record, the last exception before it, and the number of steps that the job was to make.",
    severity="critical with an exit code or an exception; info at any other end or after ctrl-c.",
)
_LAUNCHER = re.compile(r"(^|/)(torchrun|accelerate|deepspeed|torch\.distributed\.(run|launch))$")
"""What starts the ranks of a run, as a word of its command line."""

_WRITTEN = "high: the process itself wrote it. Only the code after the probe's exit hook is unseen."

EXCEPTION_SHOWN = 160
"""Characters of an exception's first line in a symptom; the evidence has all of it."""


@rule
class EndRule(Rule):
    """exited (with an exit record) and died (without one)."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._exception: wire.Event | None = None
        self._died: Finding | None = None
        self._said_goodbye = False

    def event(self, event: wire.Event) -> None:
        if event.kind == "exception":
            self._exception = event
        elif event.kind == "exit":
            self._exited(event)

    def resumed(self) -> None:
        self._exception = None
        self._said_goodbye = False
        for name in (DIED.name, EXITED.name):
            for finding in self.context.book.find(name, self.context.writer):
                severity: Severity = "info" if finding.severity == "info" else "warning"
                finding.resolve(self.context.last_x, severity)
        self.context.book.changed()
        self._died = None

    def gone(self, evidence: str, at: int, *, continued: bool) -> None:
        if self._died is not None or self._said_goodbye or self._launches():
            return
        finding = self.context.open(
            "died",
            self._gone_claim(evidence, at),
            severity="critical",
            area=DIED.area,
            failure_mode="pipeline",
            where="process",
            first_x=at,
        )
        if continued:
            finding.resolve(at, "warning")
        else:
            self._died = finding

    def _gone_claim(self, evidence: str, at: int) -> Claim:
        if self._exception is not None:
            return Claim(
                symptom=f"the process is gone {self._when(at)}{_how(self._exception.text)}",
                hypothesis="An exception ended it, and it was killed before it had written its exit record.",
                fix="Read the exception and the end of the job's output.",
                confidence="high that it is gone; medium on the cause: what came after the exception is not recorded.",
                evidence=[Evidence(evidence, step=at), *self._last_words()],
            )
        return Claim(
            symptom=f"the process is gone {self._when(at)}, without an exit record",
            hypothesis="It was killed (host out of memory, the scheduler's limit, kill -9) or crashed in C code.",
            fix="Look at the kernel's log (dmesg), the scheduler's accounting, and the last memory figures.",
            confidence="high that it is gone; low on the cause, which leaves no trace in the process itself.",
            evidence=[Evidence(evidence, step=at)],
            open_questions=["Was host memory near its limit just before?"],
        )

    def _launches(self) -> bool:
        """It only starts the ranks: how it ends is of no interest, they say themselves how they end."""
        hello = self.context.hello
        if self.context.steps or hello is None or hello.rank is not None:
            return False
        return any(_LAUNCHER.search(word) for word in hello.manifest.command[:4])

    def _when(self, at: int) -> str:
        return f"after step {at:,}" if self.context.steps else "before its first step"

    def _last_words(self) -> list[Evidence]:
        event = self._exception
        if event is None:
            return []
        where = f", in {event.data['where']}" if event.data.get("where") else ""
        return [Evidence(f"exception: {event.text.rstrip(': ')}{where}", step=self.context.last_x)]

    def _one_for_all(self, at: int) -> bool:
        """Ranks that end well are one note, not a thousand: the first one's, which counts them."""
        if self.context.hello is None or (self.context.hello.world or 1) == 1:
            return False
        for finding in self.context.book:
            if finding.kind == "exited" and finding.severity == "info" and finding.writer != self.context.writer:
                finding.evidence.append(Evidence(f"rank {self.context.rank}: exit record at step {at:,}", "exit", at))
                count = len(finding.evidence)
                finding.last_step = last = max(finding.last_step, at)
                finding.claim.symptom = f"{count} processes ended, the last after step {last:,}{self._of_more(last)}"
                self.context.book.changed()
                return True
        return False

    def _exited(self, event: wire.Event) -> None:
        self._said_goodbye = True
        code = event.data.get("code")
        failed = bool(code) or (code is None and self._exception is not None)
        interrupted = self._exception is not None and self._exception.text.startswith("KeyboardInterrupt")
        at = self.context.last_x
        if not failed and self._one_for_all(at):
            return
        self.context.open(
            "exited",
            self._failed_claim(at, code, interrupted=interrupted) if failed else self._ended_claim(at, code),
            severity="critical" if failed and not interrupted else "info",
            area=EXITED.area,
            failure_mode="pipeline" if failed and not interrupted else None,
            where="process",
            first_x=at,
        )

    def _failed_claim(self, at: int, code: int | None, *, interrupted: bool) -> Claim:
        exception = self._exception.text if self._exception is not None else ""
        return Claim(
            symptom=f"the process ended {self._when(at)}{_how(exception, code)}",
            hypothesis=(
                "It was interrupted."
                if interrupted
                else "An exception ended it."
                if exception
                else "It failed without a recorded exception."
            ),
            fix="Read the exception and the end of the job's output.",
            confidence=_WRITTEN,
            evidence=[Evidence(f"exit record at step {at:,}, {_status(code)}", "exit", at), *self._last_words()],
        )

    def _ended_claim(self, at: int, code: int | None) -> Claim:
        """Without a failure on record: a Python process does not know its exit code, so the steps have to tell."""
        more = self._of_more(at)
        evidence = [Evidence(f"exit record at step {at:,}{more}, {_status(code)}", "exit", at), *self._last_words()]
        how = ""
        if more:
            how = f"{more}, {_status(code)}"
            hypothesis = "It stopped before its last step: by a rule of its own, a signal, or sys.exit()."
            fix = "Look at the end of the job's output; nothing to do where it was meant to stop there."
            confidence = "medium that it ended early, by the steps it was to make; low on why: it did not say."
        elif code is None and self.context.total_steps is None:
            hypothesis = "It came to its end, or sys.exit() ended it: how many steps there were to be was not told."
            fix = "Nothing to do where this was its last step; else look at the end of the job's output."
            confidence = "high that it ended; medium on why: sys.exit() leaves no exception and no exit code."
        else:
            hypothesis, fix, confidence = "Training came to its end.", "Nothing to do.", _WRITTEN
        return Claim(
            symptom=f"the process ended {self._when(at)}{how}",
            hypothesis=hypothesis,
            fix=fix,
            confidence=confidence,
            evidence=evidence,
        )

    def _of_more(self, step: int) -> str:
        """ " of 3,000" where `step` is not the last of those that the job was to make; a log may leave out its last."""
        total = self.context.total_steps
        if total is None or self.context.is_log or step + self.context.stride >= total:
            return ""
        return f" of {total:,}"


def _status(code: int | None) -> str:
    return "exit code unknown" if code is None else f"exit code {code}"


def _how(exception: str, code: int | None = None) -> str:
    """How it ended: the first line of the exception, else the exit code."""
    if exception:
        line = exception.partition("\n")[0].rstrip(": ")
        return f" with {line[:EXCEPTION_SHOWN]}{'…' if len(line) > EXCEPTION_SHOWN else ''}"
    return f", exit code {code}"
