"""What every source of records has in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ntstop_probe.wire import PROTOCOL, Record


class SourceError(Exception):
    """A source cannot be read at all. Its text is one line that says what to do."""


class Arrival(NamedTuple):
    """One record, with the writer it came from and the sequence number of its frame."""

    writer: int
    sequence: int
    record: Record


@dataclass(slots=True)
class SourceStatus:
    """How the reading goes; counts are since the start."""

    corrupt: int = 0
    """Damaged frames, and stretches of bytes that are no frame."""
    skipped: int = 0
    """Records of an unknown kind or with fields of the wrong type."""
    gaps: int = 0
    """Frames that are nowhere to be found: a full disk, damage."""
    torn: int = 0
    """Bytes at the end that are no whole frame (yet)."""
    newer: int | None = None
    """Protocol of the writer, where it is newer than ours: its records are not read."""
    live: bool = False
    """Frames arrive through a socket."""
    complete: bool = False
    """Everything that is on disk has been read: what comes now is new."""
    problem: str = ""
    """One line on what cannot be read now, "" when all is well."""
    removed: str = ""
    """One line on what the writer itself has removed to keep to its share of the disk; no loss, no problem."""


class Source(Protocol):
    """Somewhere records come from."""

    @property
    def status(self) -> SourceStatus:
        """How the reading goes."""
        ...

    def poll(self, timeout: float) -> list[Arrival]:
        """Records since the last call, in the order of each writer; waits up to `timeout` seconds for the first.

        A burst is bounded (a few MB), so that a long recording comes in many. Raises `SourceError` when it cannot
        be read at all.
        """
        ...

    def refresh(self) -> None:
        """Look at the recording with the next `poll`, even while a socket speaks."""
        ...

    def close(self) -> None:
        """Release files and sockets."""
        ...


def newer_protocol(protocol: int) -> str:
    """What to say of a writer whose protocol is newer than ours."""
    return f"written by a newer ntstop (protocol {protocol}, this one reads {PROTOCOL}): pip install -U ntstop"


def removed_layers(before: int | None) -> str:
    """What to say of layers that the writer has removed itself: those before a step; None: all there were."""
    stretch = "all layers" if before is None else f"the layers before step {before:,}"
    return f"{stretch} were removed to keep to NTSTOP_MAX_DISK"
