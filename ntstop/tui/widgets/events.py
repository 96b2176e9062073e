"""What has happened in the run: checkpoints, evaluations, resumes, exceptions, notes of those who look at it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ntstop_probe.wire import Event

from ...run.process import ProcessState
from ...text import count, duration, moment, safe
from ...viewer_state import Mark
from ..raster.ink import Ink
from ..raster.table import Cell, Column
from ..workspace import Look
from .pane import value
from .table import StepTable

NOTE = "note"
"""What a mark of a viewer is called; nothing that a job does is."""
INKS = {
    NOTE: Ink.MARK,
    "exception": Ink.CRITICAL,
    "warning": Ink.WARNING,
    "resume": Ink.STRONG,
    "checkpoint": Ink.STRONG,
}


@dataclass(frozen=True, slots=True)
class Happened:
    """One event with its step and the time of day; None where they are not known."""

    event: Event
    step: float | None
    wall: float | None


def events_of(process: ProcessState) -> list[Happened]:
    """The events that are kept, the newest first."""
    found = []
    for event in reversed(process.events):
        step = event.step if event.step is not None else event.ordinal
        found.append(Happened(event, step, process.wall_at(event.t)))
    return found


def with_marks(happened: Sequence[Happened], marks: Mapping[int, Mark]) -> list[Happened]:
    """The events, the newest first, with each mark of the viewers before the first event of its step or an earlier."""
    found = list(happened)
    for step, mark in marks.items():
        place = next((place for place, one in enumerate(found) if (one.step or 0) <= step), len(found))
        found.insert(place, Happened(Event(float(step), NOTE, text=mark.note), float(step), mark.wall))
    return found


class EventsPane(StepTable[Happened]):
    """The events as a table."""

    NAME = "events"
    HELP = "What happened once, and what viewers have noted. enter puts the cursor on its step; m there changes a note."
    COLUMNS = (
        Column("time", 8, keep=3),
        Column("step", 9, keep=6),
        Column("event", 11, keep=8, right=False),
        Column("took", 7, keep=4),
        Column("what", keep=7, right=False),
    )

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.happened: Sequence[Happened] = ()
        self.seen = 0
        self.marks: Mapping[int, Mark] = {}
        self.empty = "nothing has happened yet but steps"

    def gather(self, look: Look) -> None:
        """The newest events."""
        self.happened, self.seen = events_of(look.process), look.process.events_seen
        self.marks = look.marks

    def present(self) -> None:
        """The table; how many there were when not all are kept."""
        self.set_rows(with_marks(self.happened, self.marks))
        lost = self.seen - len(self.happened)
        self.head(
            [value(count(self.seen))] if self.seen else [], f"{count(lost)} older ones are not kept" if lost else ""
        )

    def cells(self, row: Happened) -> Sequence[Cell]:
        """Time of day, step, kind, duration, text."""
        event = row.event
        return (
            Cell(moment(row.wall, "%H:%M:%S"), Ink.DIM),
            Cell(count(row.step)),
            Cell(safe(event.kind), INKS.get(event.kind, Ink.TEXT)),
            Cell(duration(event.duration) if event.duration is not None else ""),
            Cell(event_text(event), is_path="/" in event.text),
        )

    def identity(self, row: Happened) -> Hashable:
        """No two events are at one moment and of one kind."""
        return row.event.t, row.event.kind

    def sort_key(self, row: Happened, column: int) -> Any:
        """By what stands in the column."""
        return (row.wall, row.step, row.event.kind, row.event.duration, row.event.text)[column]

    def step_of(self, row: Happened) -> float | None:
        """Where it happened."""
        return row.step


def event_text(event: Event) -> str:
    """What an event says, with what it carries; a path last, of which the end says most."""
    data = ", ".join(f"{name} {told}" for name, told in event.data.items() if told is not None)
    parts = (data, event.text) if "/" in event.text else (event.text, data)
    return safe(" · ".join(part for part in parts if part))
