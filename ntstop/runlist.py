"""The runs of this machine as they are now, with the course of their losses and what was found in them, kept up to
date in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ntstop.diagnosis.engine import Engine
from ntstop.diagnosis.protocol import Diagnosis
from ntstop.run.names import main_curve
from ntstop.session import Session
from ntstop.sources import runs
from ntstop.sources.base import SourceError

MOST_RUNS = 200
"""Runs that are listed, the latest activity first."""
CELLS = 12
"""Places of a loss curve."""
_EVERY = 1.0
"""Seconds between two looks at the folder; what a look took, ten times over, where that is longer."""
_READ_AGAIN = 10.0
"""Seconds after which a run that goes on is read again."""
_MOST_BYTES = 32 * 1024 * 1024
"""Recordings up to this size are read for curve and findings; of longer ones only the last loss is told."""


@dataclass(frozen=True, eq=False, slots=True)
class Gist:
    """What was read of a run."""

    loss: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    """Means over the run, `CELLS` of them or fewer."""
    kind: str = ""
    severity: str = ""
    """Of the weightiest finding, "" where there is none."""


@dataclass(frozen=True, eq=False, slots=True)
class Listed:
    """One run of the list; `gist` is None until it was read, and where it is too long for that."""

    entry: runs.RunEntry
    gist: Gist | None = None


class RunList:
    """`start` it, look at `listed` as often as `version` has changed, `stop` it. `problem`: why there is no list."""

    def __init__(self, engine: Callable[[], Diagnosis] = Engine) -> None:
        self.listed: Sequence[Listed] = ()
        """Replaced, never changed."""
        self.version = 0
        self.problem = ""
        self._engine = engine
        self._gists: dict[Path, tuple[float, int | None, Gist]] = {}
        self._stop = threading.Event()

    def start(self) -> None:
        """Begin to look, in a thread. Once only."""
        threading.Thread(target=self._run, name="ntstop-runs", daemon=True).start()

    def stop(self) -> None:
        """Look no more; does not wait."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            begin = time.monotonic()
            try:
                entries = [entry for entry in runs.scan() if entry.processes or entry.problem][:MOST_RUNS]
            except SourceError as error:
                self.problem, entries = str(error), []
            self._show(entries)
            self._stop.wait(max(_EVERY, 10 * (time.monotonic() - begin)))
            for entry in entries:
                if self._stop.is_set():
                    return
                if self._is_due(entry):
                    self._gists[entry.path] = time.monotonic(), entry.last_step, self._read(entry)
                    self._show(entries)

    def _show(self, entries: Sequence[runs.RunEntry]) -> None:
        known = {path: gist for path, (_, _, gist) in self._gists.items()}
        self.listed = [Listed(entry, known.get(entry.path)) for entry in entries]
        self.version += 1

    def _is_due(self, entry: runs.RunEntry) -> bool:
        at, step, _ = self._gists.get(entry.path, (0.0, None, None))
        if at and (step == entry.last_step or time.monotonic() - at < _READ_AGAIN):
            return False
        return not entry.problem and _size(entry.path) <= _MOST_BYTES

    def _read(self, entry: runs.RunEntry) -> Gist:
        try:
            session = Session(entry.path, renew=self._engine)
            session.load()
        except SourceError:
            return Gist()
        return gist_of(session)


def gist_of(session: Session) -> Gist:
    """What is known of a run that was read, or is being read; then under its lock."""
    process = session.state.primary
    name = main_curve(process.series) if process else None
    series = process.series[name] if process and name else None
    reach = series.x_range if series is not None else None
    loss = series.window(*reach, CELLS).mean if series is not None and reach else np.empty(0)
    weighty = next((finding for finding in session.findings if finding.severity != "info"), None)
    return Gist(loss, weighty.kind if weighty else "", weighty.severity if weighty else "")


def _size(folder: Path) -> int:
    """Bytes of the recordings in a run's folder."""
    try:
        return sum(path.stat().st_size for path in folder.glob("*/*.nts"))
    except OSError:
        return 0
