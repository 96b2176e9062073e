"""What the tests of logs share: the golden files, and a log as the state that a session would show."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ntstop.session import Session
from ntstop.sources.base import Arrival
from ntstop.sources.logs.discover import log_targets
from ntstop.sources.logs.reader import Reader, Row
from ntstop.sources.logs.roles import Role
from ntstop.sources.logs.source import LogSource

GOLDEN = Path(__file__).parents[1] / "data" / "logs"
"""Written by the tools themselves; see the README there."""
EVENTS = GOLDEN / "events.out.tfevents.1796011971.host.1.0"
WANDB = GOLDEN / "run-offline.wandb"


def loaded(path: Path, roles: dict[str, Role] | None = None) -> Session:
    """The one log at `path`, read to its end."""
    (target,) = log_targets(path)
    session = Session(LogSource(target, roles))
    session.load()
    return session


def curve(session: Session, name: str) -> list[tuple[float, float]]:
    """Step and value of every point of a series."""
    process = session.state.primary
    assert process is not None
    x, y, _ = process.series[name].recent(4096)
    return list(zip(x.tolist(), y.tolist(), strict=True))


def in_pieces(reader: Reader, data: bytes, size: int) -> list[Row]:
    """Rows of data that arrives `size` bytes at a time."""
    return [row for at in range(0, len(data), size) for row in reader.feed(data[at : at + size])]


def same(first: Sequence[Row], second: Sequence[Row]) -> bool:
    """Whether rows are equal, NaN to NaN."""
    return len(first) == len(second) and all(
        (a.step, a.wall, list(a.values)) == (b.step, b.wall, list(b.values))
        and np.array_equal(list(a.values.values()), list(b.values.values()), equal_nan=True)
        for a, b in zip(first, second, strict=True)
    )


def drained(source: LogSource) -> list[Arrival]:
    """Everything that a source that waits for nothing has now."""
    source.live = False
    arrivals: list[Arrival] = []
    while more := source.poll(0.0):
        arrivals += more
    return arrivals
