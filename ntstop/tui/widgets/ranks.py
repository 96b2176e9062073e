"""One line a rank: where it stands, how far it lags, what it waits for and holds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from ...run.process import ProcessState
from ...text import count, duration, number, percent, size
from ..facts import QUIET_SECONDS
from ..raster.ink import Ink
from ..raster.table import Cell, Column
from ..workspace import Look
from .pane import Value, value
from .phases import STEP_TIME
from .table import TablePane

MANY, CROWD = 64, 256
"""Ranks whose lines are not told anew with each look, and not even with each move of the cursor."""
FRESH_SECONDS = 1.9
"""How long the lines of many ranks stand: until the screen's next turn, which comes every two seconds."""
NAMED = 1.05
"""Step time over the median of all from which the slowest rank is named."""
SLOW = 1.2
"""Step time over the median of all from which a rank is set off."""
WINDOW = 32
"""Newest steps that step time and waiting are the mean of."""


@dataclass(frozen=True, slots=True)
class RankLine:
    """One rank now. None: not known. `lag` in steps behind the foremost rank."""

    rank: int | None
    host: str
    state: str
    ink: Ink
    step: float
    lag: float | None
    seconds: float | None
    beside_peers: float | None
    """Step time over the median of all ranks."""
    wait: float | None
    """Share of the step in the data loader."""
    memory: float | None
    busy: float | None
    loss: float | None


def rank_lines(
    ranks: dict[int | None, ProcessState], *, live: bool, cursor: float | None = None, is_reading: bool = False
) -> list[RankLine]:
    """A line for each, by rank. `live`: silence means something.

    `is_reading`: what was recorded is read still, of one rank sooner than of another, and no lag is known.

    `cursor`: the step whose times, memory, use and loss are told instead of the newest; state, step and lag are those
    of now.
    """

    def mean(process: ProcessState, name: str) -> float | None:
        return _mean(process, name) if cursor is None else _at(process, cursor, name)

    def newest(process: ProcessState, *names: str) -> float | None:
        return _newest(process, *names) if cursor is None else _at(process, cursor, *names)

    if len(ranks) > 1:
        # A launcher trains nothing, and lags behind nobody.
        ranks = {rank: process for rank, process in ranks.items() if rank is not None or process.steps}
    seconds = {rank: mean(process, STEP_TIME) for rank, process in ranks.items()}
    known = [at for at in seconds.values() if at]
    median = statistics.median(known) if known else None
    foremost = max((process.x for process in ranks.values()), default=0.0)
    lines = []
    for rank, process in ranks.items():
        took = seconds[rank]
        wait = mean(process, "phase/data")
        state, ink = _state(process, live=live)
        lines.append(
            RankLine(
                rank=rank,
                host=process.hello.host if process.hello else "",
                state=state,
                ink=ink,
                step=process.x,
                lag=None if is_reading else foremost - process.x,
                seconds=took,
                beside_peers=took / median if took and median else None,
                wait=wait / took if took and wait is not None else None,
                memory=newest(process, "alloc0/allocated", "gpu0/memory_used", "host/process_rss"),
                busy=newest(process, "gpu0/utilization"),
                loss=newest(process, "loss"),
            )
        )
    return lines


def _mean(process: ProcessState, name: str) -> float | None:
    known = process.recent(name, WINDOW)
    return sum(known) / len(known) if known else None


def _newest(process: ProcessState, *names: str) -> float | None:
    return next((found for name in names if (found := process.newest(name)) is not None), None)


def _at(process: ProcessState, cursor: float, *names: str) -> float | None:
    """At the step under the cursor; None of a rank among many, of which only the step time is kept."""
    return next((found for name in names if (found := process.at(name, cursor)) is not None), None)


def _state(process: ProcessState, *, live: bool) -> tuple[str, Ink]:
    if process.exception is not None:
        return "exception", Ink.CRITICAL
    if process.exit is not None:
        code = process.exit.data.get("code")
        return ("ended", Ink.DIM) if code in (0, None) else (f"exit {code}", Ink.CRITICAL)
    silent = time.monotonic() - process.heartbeat_arrival if process.heartbeat_arrival is not None else None
    if live and silent is not None and silent > QUIET_SECONDS:
        return f"silent {silent:.0f} s", Ink.WARNING
    if (standing := process.standing) is not None:
        return f"in {standing[0]} {standing[1]:.0f} s", Ink.WARNING
    return process.phase or "–", Ink.TEXT


class RanksPane(TablePane[RankLine]):
    """The ranks as a table."""

    NAME = "ranks"
    HELP = (
        "Means of the newest 32 steps, with a cursor the step under it; memory and gpu, measured once a second, are "
        "the last before it. What a rank that has not come so far had last is dim. × peers: step time over the median "
        "of all ranks. lag: steps behind the first, now. data: share of the step that waits for the loader."
    )
    COLUMNS = (
        Column("rank", 5, keep=9),
        Column("state", 18, keep=8, right=False),
        Column("step", 10, keep=5),
        Column("lag", 6, keep=8),
        Column("step time", 9, keep=7),
        Column("× peers", 7, keep=8),
        Column("data", 5, keep=6),
        Column("memory", 9, keep=5),
        Column("gpu", 4, keep=3),
        Column("loss", 8, keep=4),
        Column("host", keep=2, right=False),
    )

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.found: Sequence[RankLine] = ()
        self.cursor: float | None = None
        self.is_reading = False
        self._stale_at = 0.0
        self.empty = "no rank has told anything yet"

    def gather(self, look: Look) -> None:
        """A line for each rank; of a crowd not with a key but soon after, for a thousand lines take 12 ms."""
        now, cursor = time.monotonic(), look.view.cursor
        if self.is_another_run(look):
            self.found = ()
        is_fresh = len(self.found) >= MANY and now < self._stale_at and cursor == self.cursor
        self.owes = len(self.found) >= CROWD and not look.at_leisure and cursor != self.cursor
        if is_fresh or self.owes:
            return
        session, self.cursor, self.is_reading = look.session, cursor, not look.session.is_read
        live = session.entry is not None and session.entry.active and not self.is_reading
        self.found = rank_lines(session.state.ranks, live=live, cursor=cursor, is_reading=self.is_reading)
        self._stale_at = now + FRESH_SECONDS

    def present(self) -> None:
        """The table, with the slowest rank and the widest lag in the title."""
        self.set_rows(self.found)
        told: list[Value] = []
        timed = [row for row in self.found if row.beside_peers is not None]
        if timed:
            slowest = max(timed, key=lambda row: row.beside_peers or 0.0)
            beside = slowest.beside_peers or 0.0
            name = "–" if slowest.rank is None else str(slowest.rank)
            ink = Ink.WARNING if beside >= SLOW else Ink.STRONG
            # Where all are alike, which is the slowest changes with every step.
            whose = f"{name}, " if beside >= NAMED else ""
            told.append(value(f"{whose}{beside:.2f} × peers", ink, key="slowest rank"))
        lags = [row.lag for row in self.found if row.lag is not None]
        if lags:
            told.append(value(f"{count(max(lags))} steps", key="widest lag"))
        words = ["reading what was recorded"] if self.is_reading else []
        words += [f"step {count(self.cursor)}"] if self.cursor is not None else []
        self.head(told, ", ".join(words), rows=count(len(self.found)))

    def cells(self, row: RankLine) -> Sequence[Cell]:
        """Rank, state, step, lag, times, memory."""
        slow = row.beside_peers is not None and row.beside_peers >= SLOW
        # A rank that has not come as far as the cursor has what it had last.
        here = Ink.DIM if self.cursor is not None and row.step < self.cursor else Ink.TEXT
        return (
            Cell("–" if row.rank is None else str(row.rank)),
            Cell(row.state, row.ink),
            Cell(count(row.step)),
            Cell("–" if row.lag is None else count(row.lag), Ink.WARNING if (row.lag or 0) > WINDOW else Ink.TEXT),
            Cell(duration(row.seconds), here),
            Cell("–" if row.beside_peers is None else f"{row.beside_peers:.2f}", Ink.WARNING if slow else here),
            Cell(percent(row.wait), Ink.WARNING if row.wait is not None and row.wait > 0.3 else here),
            Cell(size(row.memory), here),
            Cell("n/a" if row.busy is None else f"{row.busy:.0f}%", here),
            Cell(number(row.loss), here),
            Cell(row.host, Ink.DIM),
        )

    def identity(self, row: RankLine) -> Hashable:
        """The rank."""
        return row.rank

    def sort_key(self, row: RankLine, column: int) -> Any:
        """By what stands in the column."""
        return (
            row.rank, row.state, row.step, row.lag, row.seconds, row.beside_peers, row.wait, row.memory, row.busy,
            row.loss, row.host,
        )[column]  # fmt: skip
