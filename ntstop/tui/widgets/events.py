"""What has happened in the run: checkpoints, evaluations, resumes, exceptions, notes of those who look at it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from textual.app import ComposeResult

from ntstop_probe.wire import Event

from ...run.names import evaluation_losses
from ...run.process import ProcessState
from ...text import clip, count, duration, moment, number, safe
from ...viewer_state import Mark
from ..raster.ink import Ink
from ..raster.picture import Picture
from ..raster.table import Cell, Column
from ..workspace import Look
from .chart import PictureWidget
from .lines import wrapped
from .pane import is_ascii, plain_if
from .table import StepTable

EVALUATIONS = 500
"""Newest evaluations whose loss is told."""
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
    text: str = ""
    """What it says, in as few words as a column has room for."""
    took: float | None = None
    """Seconds."""


def events_of(process: ProcessState) -> list[Happened]:
    """The events that are kept, the newest first.

    A checkpoint that the job tells of and that was seen being saved, too, is one; a run ends with its last step. How
    often the probe looks is no event of the training.
    """
    found: list[Happened] = []
    measured = _measured(process)
    for event in process.events:
        if event.kind == "sampling":
            continue
        step: float | None = event.step if event.step is not None else event.ordinal
        if event.kind == "exit" and step is not None:
            step = min(step, process.x)
        text = event_text(event)
        if event.kind == "evaluation" and step is not None:
            # The step that was told before the job's own numbering was known is one less.
            text = text or measured.get(round(step)) or measured.get(round(step) + 1, "")
        one = Happened(event, step, process.wall_at(event.t), text, event.duration)
        last = found[-1] if found else None
        if last is not None and event.kind == "checkpoint" and _are_one(last, one):
            found[-1] = replace(last, took=one.took if last.took is None else last.took)
        else:
            found.append(one)
    return found[::-1]


def _measured(process: ProcessState) -> dict[int, str]:
    """By step what evaluations have measured: the first of the losses on other data."""
    name = next(iter(evaluation_losses(process.series)), None)
    if name is None:
        return {}
    x, y, _ = process.series[name].recent(EVALUATIONS)
    return {round(step): f"{name} {number(value)}" for step, value in zip(x.tolist(), y.tolist(), strict=True)}


def _are_one(last: Happened, next: Happened) -> bool:
    return (last.event.kind, last.event.text, last.step) == (next.event.kind, next.event.text, next.step)


def with_marks(happened: Sequence[Happened], marks: Mapping[int, Mark]) -> list[Happened]:
    """The events, the newest first, with each mark of the viewers before the first event of its step or an earlier."""
    found = list(happened)
    for step, mark in marks.items():
        place = next((place for place, one in enumerate(found) if (one.step or 0) <= step), len(found))
        event = Event(float(step), NOTE, text=mark.note)
        found.insert(place, Happened(event, float(step), mark.wall, event_text(event)))
    return found


class Whole(PictureWidget):
    """All that the chosen event says, under the table, of which the last column may be cut."""

    DEFAULT_CSS = "Whole { height: 0; }"

    text = ""

    def draw(self, width: int, height: int) -> Picture:
        """As many lines as there is room for."""
        picture = Picture.blank(width, height)
        room = max(width - 3, 8)
        lines = wrapped(self.text, room)
        if len(lines) > height:
            lines[height - 1 :] = [clip(" ".join(lines[height - 1 :]), room)]
        for row, text in enumerate(lines[:height]):
            picture.write(row, 2, text, Ink.TEXT)
        return plain_if(is_ascii(self.app), picture)


class EventsPane(StepTable[Happened]):
    """The events as a table."""

    NAME = "events"
    HELP = (
        "What happened once, and what viewers have noted; below, all that the chosen one says. With the cursor goes "
        "the choice; a note can be changed where the cursor stands on it."
    )
    COLUMNS = (
        Column("time", 8, keep=3),
        Column("step", 9, keep=6),
        Column("event", 10, keep=8, right=False),
        Column("took", 7, keep=4),
        Column("what", keep=7, right=False),
    )

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.happened: Sequence[Happened] = ()
        self.lost = 0
        self.marks: Mapping[int, Mark] = {}
        self.cursor: float | None = None
        self._followed: float | None = None
        self.whole = Whole()
        self.empty = "nothing has happened yet but steps"

    def body(self) -> ComposeResult:
        """The table, and the chosen event."""
        yield from super().body()
        yield self.whole

    def gather(self, look: Look) -> None:
        """The newest events."""
        process = look.process
        self.happened, self.lost = events_of(process), process.events_seen - len(process.events)
        self.marks, self.cursor = look.marks, look.view.cursor

    def present(self) -> None:
        """The table; how many there were when not all are kept. A cursor that was moved takes the choice along."""
        self.set_rows(with_marks(self.happened, self.marks))
        if self.cursor != self._followed:
            self._followed = self.cursor
            self._choose_at_cursor()
        self.whole.styles.height = 0 if self.size.height < 10 else 2 if self.size.height < 18 else 3
        self.chosen_changed()
        total = len(self.happened) + self.lost
        lost = f"{count(self.lost)} older ones not kept" if self.lost else ""
        self.head([], lost, rows=count(total) if total else "")

    def _choose_at_cursor(self) -> None:
        """The last that has happened by the step under the cursor."""
        chosen = self.chosen
        if self.cursor is None or (chosen is not None and chosen.step == self.cursor):
            return
        by_then = [place for place, row in enumerate(self.rows) if row.step is not None and row.step <= self.cursor]
        if by_then:
            self.choose(max(by_then, key=lambda place: (self.rows[place].step, -place)))

    def chosen_changed(self) -> None:
        """Say all of it."""
        self.whole.text = "" if self.chosen is None else whole_text(self.chosen)
        self.whole.redraw()

    def cells(self, row: Happened) -> Sequence[Cell]:
        """Time of day, step, kind, duration, text."""
        event = row.event
        return (
            Cell(moment(row.wall, "%H:%M:%S"), Ink.DIM),
            Cell(count(row.step)),
            Cell(safe(event.kind), INKS.get(event.kind, Ink.TEXT)),
            Cell(duration(row.took) if row.took is not None else ""),
            Cell(row.text, is_path="/" in event.text),
        )

    def identity(self, row: Happened) -> Hashable:
        """No two events are at one moment and of one kind."""
        return row.event.t, row.event.kind

    def sort_key(self, row: Happened, column: int) -> Any:
        """By what stands in the column."""
        return (row.wall, row.step, row.event.kind, row.took, row.text)[column]

    def step_of(self, row: Happened) -> float | None:
        """Where it happened."""
        return row.step


def event_text(event: Event) -> str:
    """What an event says, where its kind stands beside it."""
    if event.kind == "epoch" and not event.text:
        return safe(f"{event.data['epoch']} has ended") if "epoch" in event.data else ""
    return safe(event.text) or _data(event)


def whole_text(row: Happened) -> str:
    """All that an event says, with what it carries."""
    event = row.event
    data = "" if event.kind == "epoch" else _data(event)
    parts = (safe(event.text), data) if event.text else (data or row.text,)
    return f"{safe(event.kind)}: {' · '.join(part for part in parts if part)}" if any(parts) else ""


def _data(event: Event) -> str:
    return safe(", ".join(f"{name} {told}" for name, told in event.data.items() if told is not None))
