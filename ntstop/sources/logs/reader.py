"""What a reader of a log is: bytes in, rows out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from .batch import Batch


class Row(NamedTuple):
    """Numbers that a log gives for one step. NaN and Inf are values; what is not in `values` was not logged."""

    step: int | None
    """None: the log has no step; the rows are counted."""
    values: dict[str, float]
    wall: float | None = None
    """Unix seconds, None where the log has no time."""


@dataclass(slots=True)
class LogFacts:
    """What a log tells beside its rows."""

    bad: int = 0
    """Lines or entries that could not be read."""
    corrupt: int = 0
    """Records whose checksum does not fit."""
    total_steps: int | None = None
    title: str | None = None
    exit_code: int | None = None
    """The code with which the run says it has ended; None while it has not."""
    notes: list[str] = field(default_factory=list)
    seconds: set[str] = field(default_factory=set)
    """Names of times whose unit the log has said, and which are given in seconds."""


class Reader(Protocol):
    """Reads one log from its beginning, in pieces of any size."""

    format: str
    """What it reads, for people: "TensorBoard events", "CSV" …"""
    whole: bool
    """The file is rewritten, not appended to: `feed` gets all of it each time, and returns all of its rows."""
    facts: LogFacts

    def feed(self, data: bytes) -> list[Row]:
        """The rows that are complete with `data`. Never raises: what cannot be read is counted in `facts`."""
        ...

    def end(self) -> list[Row]:
        """Nothing has come for a while: the rows of what was waiting for its end."""
        ...


@runtime_checkable
class BatchReader(Reader, Protocol):
    """A reader that can give many rows at once."""

    def feed_batch(self, data: bytes) -> Batch | list[Row]:
        """As `feed`."""
        ...
