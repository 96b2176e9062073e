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
from .pane import value
from .phases import STEP_TIME
from .table import TablePane

MANY = 64
FRESH_SECONDS = 1.9
"""How long the lines of many ranks stand: until the screen's next turn, which comes every two seconds."""
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
    lag: float
    seconds: float | None
    beside_peers: float | None
    """Step time over the median of all ranks."""
    wait: float | None
    """Share of the step in the data loader."""
    memory: float | None
    busy: float | None
    loss: float | None


def rank_lines(ranks: dict[int | None, ProcessState], *, live: bool) -> list[RankLine]:
    """A line for each, by rank. `live`: silence means something."""
    seconds = {rank: _mean(process, STEP_TIME) for rank, process in ranks.items()}
    known = [at for at in seconds.values() if at]
    median = statistics.median(known) if known else None
    foremost = max((process.x for process in ranks.values()), default=0.0)
    lines = []
    for rank, process in ranks.items():
        took = seconds[rank]
        wait = _mean(process, "phase/data")
        state, ink = _state(process, live=live)
        lines.append(
            RankLine(
                rank=rank,
                host=process.hello.host if process.hello else "",
                state=state,
                ink=ink,
                step=process.x,
                lag=foremost - process.x,
                seconds=took,
                beside_peers=took / median if took and median else None,
                wait=wait / took if took and wait is not None else None,
                memory=_newest(process, "alloc0/allocated", "gpu0/memory_used", "host/process_rss"),
                busy=_newest(process, "gpu0/utilization"),
                loss=_newest(process, "loss"),
            )
        )
    return lines


def _mean(process: ProcessState, name: str) -> float | None:
    known = process.recent(name, WINDOW)
    return sum(known) / len(known) if known else None


def _newest(process: ProcessState, *names: str) -> float | None:
    return next((found for name in names if (found := process.newest(name)) is not None), None)


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
    HELP = "Means of the newest 32 steps. × peers: step time over the median of all ranks. lag: steps behind the first."
    COLUMNS = (
        Column("rank", 5, keep=9),
        Column("state", 18, keep=8, right=False),
        Column("step", 10, keep=7),
        Column("lag", 6, keep=8),
        Column("step time", 9, keep=7),
        Column("× peers", 7, keep=6),
        Column("data", 5, keep=6),
        Column("memory", 9, keep=5),
        Column("gpu", 4, keep=3),
        Column("loss", 8, keep=4),
        Column("host", keep=2, right=False),
    )

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.found: Sequence[RankLine] = ()
        self._stale_at = 0.0
        self.empty = "no rank has told anything yet"

    def gather(self, look: Look) -> None:
        """A line for each rank; of many not with each key, for a thousand lines take 20 ms."""
        now = time.monotonic()
        if len(self.found) >= MANY and now < self._stale_at:
            return
        entry = look.session.entry
        self.found = rank_lines(look.session.state.ranks, live=bool(entry and entry.active))
        self._stale_at = now + FRESH_SECONDS

    def present(self) -> None:
        """The table, with the widest lag in the title."""
        self.set_rows(self.found)
        lag = max((row.lag for row in self.found), default=0.0)
        self.head([value(count(len(self.found))), *([value(count(lag), key="widest lag")] if lag else [])])

    def cells(self, row: RankLine) -> Sequence[Cell]:
        """Rank, state, step, lag, times, memory."""
        slow = row.beside_peers is not None and row.beside_peers >= 1.2
        return (
            Cell("–" if row.rank is None else str(row.rank)),
            Cell(row.state, row.ink),
            Cell(count(row.step)),
            Cell(count(row.lag) if row.lag else "0", Ink.WARNING if row.lag > WINDOW else Ink.TEXT),
            Cell(duration(row.seconds)),
            Cell("–" if row.beside_peers is None else f"{row.beside_peers:.2f}", Ink.WARNING if slow else Ink.TEXT),
            Cell(percent(row.wait), Ink.WARNING if row.wait is not None and row.wait > 0.3 else Ink.TEXT),
            Cell(size(row.memory)),
            Cell("n/a" if row.busy is None else f"{row.busy:.0f}%"),
            Cell(number(row.loss)),
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
