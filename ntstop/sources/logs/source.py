"""`LogSource`: the records of one run, out of the files in which another tool logs it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from ntstop_probe.wire import PROTOCOL, Event, Hello, Manifest, Record

from ..base import Arrival, SourceStatus
from ..evidence import State
from ..runs import RunEntry
from .assembler import Assembler
from .batch import Batch
from .follow import Follower
from .reader import BatchReader, Reader, Row
from .remarks import remarks
from .roles import Role, Roles

_PIECE = 1024 * 1024
"""Bytes that are read of a file at a time."""
_SHOWN = {"duration": "step_time"}
"""Columns whose series has another name."""
_NAP = 0.2
"""Seconds between two looks at the files."""
_DISCOVER_EVERY = 2.0
_SETTLED = 10.0
"""Seconds without a change after which the last line of a file is taken to be all there."""
HOLD = 0.5
"""Seconds that the newest step waits for more of its numbers, and complete ones for more of their kind."""
GROWING = 60.0
"""Seconds without a change after which a log is said not to grow."""


@dataclass(frozen=True, slots=True)
class LogPart:
    """A file of a run, and what makes a reader for it."""

    path: Path
    make: Callable[[], Reader]


@dataclass(frozen=True, slots=True)
class LogTarget:
    """One run that is logged in files: those of a TensorBoard folder, or a single one."""

    name: str
    path: Path
    """What names it on the command line."""
    modified: float
    parts: tuple[LogPart, ...]
    again: Callable[[], Sequence[LogPart]] | None = None
    """Looks for the files anew; None: there will be no others."""
    together: bool = False
    """Files of several folders tell of the same steps: their rows are merged by time."""


class _Open:
    """A file that is being read."""

    def __init__(self, part: LogPart) -> None:
        self.part = part
        self.reader = part.make()
        self.follower = Follower(part.path, whole=self.reader.whole)
        self.given = 0
        """Rows given on."""
        self.first: Row | None = None
        self._skip = 0
        self._doubt = False
        """The file has been written anew, and its first row will tell whether it is the log that it was."""

    def rows(self, piece: bytes, *, anew: bool) -> tuple[list[Row] | Batch, bool]:
        """New rows, and whether they begin another log than the one before."""
        if anew and not self.reader.whole:
            self.reader = self.part.make()
            self._doubt = True
        if not isinstance(self.reader, BatchReader) or self._doubt or self._skip:
            return self._new(self.reader.feed(piece))
        batch = self.reader.feed_batch(piece)
        if isinstance(batch, list):
            return self._new(batch)
        if self.first is None and batch.count:
            self.first = batch.row(0)
        self.given += batch.count
        return batch, False

    def end(self) -> list[Row]:
        """Rows that waited for their end."""
        return self._new(self.reader.end())[0]

    def _new(self, rows: list[Row]) -> tuple[list[Row], bool]:
        if self.reader.whole:
            other = bool(rows) and self.first is not None and (rows[0] != self.first or len(rows) < self.given)
            self._skip, self._doubt = (0 if other else self.given), False
        elif self._doubt and rows:
            other = rows[0] != self.first
            self._skip, self._doubt = (0 if other else self.given), False
        else:
            other = False
        if other:
            self.given = 0
        if rows and (self.first is None or other):
            self.first = rows[0]
        skipped = min(self._skip, len(rows))
        fresh = rows[skipped:]
        self._skip -= skipped
        self.given += len(fresh)
        return fresh, other


class RowWriter:
    """Makes arrivals of rows: introduces the run, numbers what follows, and tells when the log has begun anew."""

    def __init__(self, name: str, roles: dict[str, Role] | None, writer: int = 1) -> None:
        self.name = name
        self.assembler = Assembler(Roles(roles))
        self.attempt = 0
        self._writer = writer
        self._sequence = 0
        self._hello: Hello | None = None
        self._wall = 0.0
        self.title: str | None = None
        self.total_steps: int | None = None

    @property
    def roles(self) -> str:
        """Which metric of the log was taken for which series, in words."""
        shown = {_SHOWN.get(column, column): name for column, name in self.assembler.mapping.items()}
        return ", ".join(f"{series} = {name}" for series, name in shown.items() if series != name)

    def introduce(self) -> list[Arrival]:
        """A hello, where it would differ from the last one."""
        hello = Hello(
            protocol=PROTOCOL, run=self.name, writer=self.name, host="", boot="", pid_namespace="", pid=0, started=0.0,
            attempt=self.attempt, t=self._wall, wall=self._wall, total_steps=self.total_steps, title=self.title,
            # Not settled: a log says nothing of seed and commit, which is not the same as there being none.
            manifest=Manifest(settled=False),
        )  # fmt: skip
        if hello == self._hello:
            return []
        self._hello = hello
        return self.arrivals([hello])

    def rows(self, rows: list[Row] | Batch) -> list[Arrival]:
        """Arrivals that are complete with these rows."""
        if isinstance(rows, Batch):
            if not self._wall and rows.walls is not None and rows.count:
                self._wall = float(rows.walls[0])
            records = self.assembler.add_batch(rows)
        else:
            if not self._wall and rows:
                self._wall = next((row.wall for row in rows if row.wall), 0.0)
            records = self.assembler.add(rows)
        return [*self.introduce(), *self.arrivals(records)]

    def begin_anew(self) -> list[Arrival]:
        """What was open of the log before; what follows is its next attempt."""
        arrivals = self.arrivals(self.assembler.new_attempt())
        self.attempt += 1
        return arrivals

    def flush(self) -> list[Arrival]:
        """What is still open."""
        return self.arrivals(self.assembler.flush())

    def settle(self) -> list[Arrival]:
        """Every step that is complete."""
        return self.arrivals(self.assembler.settle())

    def exit(self, code: int) -> list[Arrival]:
        """The end that the log itself tells."""
        return self.arrivals([Event(t=self._wall, kind="exit", data={"code": code})])

    def arrivals(self, records: Sequence[Record]) -> list[Arrival]:
        """The records, numbered."""
        found = [
            Arrival(self._writer + self.attempt, self._sequence + index, record) for index, record in enumerate(records)
        ]
        self._sequence += len(found)
        return found


class LogSource:
    """Follows the files of one `LogTarget`; see `Source`. With `live=False` nothing is waited for."""

    def __init__(self, target: LogTarget, roles: dict[str, Role] | None = None) -> None:
        self.target = target
        self.live = True
        self._files: dict[Path, _Open] = {}
        self._writer = RowWriter(target.name, roles)
        self._discover_at = 0.0
        self._complete = False
        self._held = 0.0
        self._settle_at = 0.0
        self._exit: int | None = None

    @property
    def status(self) -> SourceStatus:
        """How the reading goes."""
        files = list(self._files.values())
        bad = sum(file.reader.facts.bad for file in files)
        problem = next((file.follower.problem for file in files if file.follower.problem), "")
        return SourceStatus(
            corrupt=sum(file.reader.facts.corrupt for file in files),
            skipped=bad,
            complete=self._complete,
            problem=problem or unreadable(bad),
        )

    def poll(self, timeout: float) -> list[Arrival]:
        """The next burst of records; see `Source`."""
        deadline = time.monotonic() + timeout
        while True:
            arrivals, read = self._look()
            left = deadline - time.monotonic()
            # Nothing to show for what was read is not the end.
            if arrivals or (left <= 0 and (self.live or not read)):
                return arrivals
            if not read:
                time.sleep(max(0.0, min(left, _NAP)))

    @property
    def remarks(self) -> list[str]:
        """What was assumed and what is missing; one line each."""
        seconds = {name for file in self._files.values() for name in file.reader.facts.seconds}
        return remarks(self._writer.assembler, seconds)

    def refresh(self) -> None:
        """Look for new files with the next `poll`."""
        self._discover_at = 0.0

    def close(self) -> None:
        """Nothing is open between two looks."""

    def evidence(self) -> RunEntry:
        """Whether the log grows, which is all that a log can show of its run."""
        files = list(self._files.values())
        modified = max((file.follower.modified for file in files), default=self.target.modified)
        silence = max(0.0, time.time() - modified)
        state: State = "growing" if silence < GROWING else "quiet"
        why = "the log grows" if state == "growing" else f"the log has not grown for {ago(silence)}"
        if self._exit is not None:
            state = "failed" if self._exit else "finished"
            why = f"the log says that it ended with exit code {self._exit}"
        formats = ", ".join(dict.fromkeys(file.reader.format for file in files))
        roles = self._writer.roles
        return RunEntry(
            self.target.name,
            self.target.path,
            state=state,
            why="; ".join(part for part in (f"{formats}: {why}" if formats else why, roles) if part),
            last_activity=modified,
            ranks=1,
            attempt=self._writer.attempt,
        )

    def _look(self) -> tuple[list[Arrival], int]:
        """What the files have brought now, and how many bytes were read for it."""
        self._discover()
        arrivals: list[Arrival] = []
        read = 0
        at_end = True
        fresh: list[tuple[_Open, list[Row] | Batch]] = []
        unfinished: set[Path] = set()
        for file in self._files.values():
            folder = file.part.path.parent if self.target.together else self.target.path
            if folder in unfinished:
                # One file after the other: later files go on where earlier ones end.
                continue
            piece = file.follower.read(_PIECE)
            if piece is not None:
                rows, other = file.rows(piece.data, anew=piece.anew)
                if other:
                    arrivals += self._writer.begin_anew()
                fresh.append((file, rows))
                if not self.target.together:
                    arrivals += self._give_all(fresh)
                    fresh = []
                read += len(piece.data)
            elif file.follower.at_end and time.time() - file.follower.modified > _SETTLED:
                arrivals += self._give(file, file.end())
            if not file.follower.at_end and not file.follower.problem:
                at_end = False
                unfinished.add(folder)
        arrivals += self._give_all(fresh)
        now = time.monotonic()
        if read:
            self._held = now + HOLD
            if at_end and now >= self._settle_at:
                self._settle_at = now + HOLD
                arrivals += self._writer.settle()
        if at_end and not read and (not self.live or now >= self._held):
            arrivals += self._writer.flush()
            if self._exit is None and (code := self._told_exit()) is not None:
                self._exit = code
                arrivals += self._writer.exit(code)
        self._complete = at_end and not read
        return arrivals, read

    def _give_all(self, fresh: list[tuple[_Open, list[Row] | Batch]]) -> list[Arrival]:
        """Rows of several files that were read at once, in the order of their times."""
        filled = [(file, rows) for file, rows in fresh if (rows if isinstance(rows, list) else rows.count)]
        if len(filled) <= 1:
            return [arrival for file, rows in filled for arrival in self._give(file, rows)]
        each = [rows if isinstance(rows, list) else list(rows.rows()) for _, rows in filled]
        merged = sorted(chain.from_iterable(each), key=lambda row: row.wall or 0.0)
        return self._give(filled[0][0], merged)

    def _give(self, file: _Open, rows: list[Row] | Batch) -> list[Arrival]:
        facts = file.reader.facts
        self._writer.title = facts.title or self._writer.title
        self._writer.total_steps = facts.total_steps or self._writer.total_steps
        return self._writer.rows(rows)

    def _told_exit(self) -> int | None:
        codes = [file.reader.facts.exit_code for file in self._files.values()]
        return codes[-1] if codes else None

    def _discover(self) -> None:
        now = time.monotonic()
        if now < self._discover_at:
            return
        parts: Sequence[LogPart] = self.target.parts
        if self.target.again is not None and self._files and self.live:
            parts = self.target.again()
        self._discover_at = now + _DISCOVER_EVERY
        for part in parts:
            if part.path in self._files:
                continue
            file = _Open(part)
            if file.reader.whole and self._files:
                # The next checkpoint's state: it holds what the one before held.
                *_, before = self._files.values()
                file.given, file.first = before.given, before.first
                self._files.clear()
            self._files[part.path] = file


def unreadable(count: int) -> str:
    """What to say of lines or entries that were left out, "" when there are none."""
    return f"{count:,} {'line or entry' if count == 1 else 'lines or entries'} could not be read" if count else ""


def ago(seconds: float) -> str:
    """A silence in words."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"
