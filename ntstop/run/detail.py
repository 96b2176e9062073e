"""Old steps at full resolution: a stretch of the recording, read again in the background while somebody looks at it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ntstop.sources.segments import is_process_folder
from ntstop.sources.stretch import read_stretch

from .process import ProcessState, Track
from .state import RunState

MOST_STEPS = 262_144
"""Steps that are read at most: of more than that, no screen shows what the buckets in memory do not."""
MARGIN = 0.5
"""Of the range that was asked for, read on either side too, so that not every move of the axis reads again."""
LATER = 0.2
"""Share of a range that may have come since it was read, at the tail of a live run, before it is read again."""
FORGET_SECONDS = 30.0
"""Seconds after the last look at which the memory is given back."""
_YIELD = 0.001
"""Seconds of sleep between two megabytes, so that the screen is not kept waiting."""


@dataclass(frozen=True, slots=True)
class Detail:
    """Every point of one rank with x0 <= x <= x1."""

    folders: tuple[Path, ...]
    x0: float
    x1: float
    track: Track

    def covers(self, folders: Sequence[Path], x0: float, x1: float) -> bool:
        """Whether it has all of that range, but for a last part that has come since."""
        lacking = x1 - self.x1
        return self.x0 <= x0 and lacking <= LATER * (x1 - x0) and self.folders == tuple(folders)


class DetailReader:
    """Keeps the last stretch that was asked for. `get` never waits; `arrived` is called, in the reader's thread, when
    something that was asked for has come. Thread-safe."""

    def __init__(self, arrived: Callable[[], None]) -> None:
        self._arrived = arrived
        self._lock = threading.Lock()
        self._detail: Detail | None = None
        self._wanted: tuple[tuple[Path, ...], float, float] | None = None
        self._busy = False
        self._used = 0.0
        self._closed = False

    def get(self, folders: Sequence[Path], x0: float, x1: float, last: float) -> Detail | None:
        """The stretch with x0 <= x <= x1 of a run that has come to `last`.

        None while it is on its way, and for a stretch that is too long. Its track may only be looked at, under the
        session's lock.
        """
        x1 = min(x1, last)
        if not folders or x1 <= x0 or x1 - x0 > MOST_STEPS:
            return None
        with self._lock:
            self._used = time.monotonic()
            if self._detail is not None and self._detail.covers(folders, x0, x1):
                return self._detail
            if not self._closed and not self._is_on_its_way(x0, x1):
                margin = min(MARGIN * (x1 - x0), (MOST_STEPS - (x1 - x0)) / 2)
                self._wanted = tuple(folders), x0 - margin, min(x1 + margin, last)
                if not self._busy:
                    self._busy = True
                    threading.Thread(target=self._read, name="ntstop-detail", daemon=True).start()
        return None

    def _is_on_its_way(self, x0: float, x1: float) -> bool:
        return self._wanted is not None and self._wanted[1] <= x0 and self._wanted[2] >= x1 - LATER * (x1 - x0)

    @property
    def is_reading(self) -> bool:
        """Whether something that was asked for is on its way."""
        return self._busy

    @property
    def at_hand(self) -> Detail | None:
        """What was read last, and is kept still."""
        return self._detail

    def forget_unused(self) -> None:
        """Give the memory back when nobody has looked for a while."""
        with self._lock:
            if self._detail is not None and time.monotonic() - self._used > FORGET_SECONDS:
                self._detail = None

    def close(self) -> None:
        """Read nothing any more."""
        with self._lock:
            self._closed, self._wanted = True, None

    def _read(self) -> None:
        """Read what is wanted, and again where that has changed meanwhile; only the newest wish counts."""
        is_done = False
        while not is_done:
            with self._lock:
                wanted = self._wanted
            detail = self._load(*wanted) if wanted else None
            with self._lock:
                self._detail = detail or self._detail
                is_done = self._wanted is wanted or self._closed
                if is_done:
                    self._wanted, self._busy = None, False
            self._arrived()

    def _load(self, folders: tuple[Path, ...], x0: float, x1: float) -> Detail | None:
        """The stretch, of all attempts in their order; None when the reader was closed meanwhile."""
        state = RunState()
        for writer, folder in enumerate(folders):
            for records in read_stretch(folder, x0, x1):
                for record in records:
                    state.apply(writer, record)
                if self._closed:
                    return None
                time.sleep(_YIELD)
        primary = state.primary
        return Detail(folders, x0, x1, primary.track if primary else Track(None))


def folders_of(run: Path, state: RunState, process: ProcessState) -> list[Path]:
    """The folders of all attempts of a process's rank, earlier ones first; `run` may be that of one process."""
    if is_process_folder(run):
        return [run]
    same = [other for other in state.processes.values() if other.track is process.track and other.hello]
    same.sort(key=lambda other: other.attempt)
    return [run / other.hello.writer for other in same if other.hello]
