"""What whoever reads a run needs of the diagnosis: the engine has it, and so has a test's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ntstop_probe.wire import Record

from .finding import Finding


class Diagnosis(Protocol):
    """What a session needs of a diagnosis engine."""

    @property
    def findings(self) -> Sequence[Finding]:
        """All findings, the weightiest first."""
        ...

    def observe(self, writer: int, record: Record) -> None:
        """Take in one record."""
        ...

    def process_gone(self, writer: int, evidence: str) -> None:
        """Take in that a process is gone without having said so."""
        ...

    def process_stopped(self, writer: int, evidence: str) -> None:
        """Take in that a process is held by a signal; told at each look while it is."""
        ...

    def settle(self, stop: Callable[[], bool] = ..., *, patient: bool = ...) -> bool:
        """Judge all that has been taken in: no more comes for now. False where `stop` said so before the end.
        `patient`: what a heartbeat of the next second is to close may wait for it."""
        ...
