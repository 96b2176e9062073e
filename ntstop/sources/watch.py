"""How the processes of a run are, looked at again and again: a thousand of them a few at a time."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from pathlib import Path

from . import evidence, runs
from .base import SourceError
from .runs import ProcessEntry, RunEntry
from .segments import is_process_folder

_FEW = 16
"""Processes of which each look reads all."""
_BUDGET = 0.02
"""Seconds a look spends on recordings, when there are more. Whether the pids are there is asked of all, every time."""
_END = 8192
"""Bytes read at the end of each recording then."""


class RunWatch:
    """The evidence on one run folder, or on one process folder."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._entries: dict[Path, ProcessEntry] = {}
        self._turn: list[Path] = []
        self._begun: Iterator[RunEntry | None] | None = None
        """A look that is not at its end."""

    def look(self) -> RunEntry:
        """The run as it is now. Of more than 16 processes those that are gone or new are read, and a few others in
        turn. Raises `SourceError` where it cannot be read."""
        self._begun = None
        while True:
            if (entry := self.look_for(math.inf)) is not None:
                return entry

    def look_for(self, seconds: float) -> RunEntry | None:
        """Look for about so many seconds: the run where that was enough, else None, and the next call goes on."""
        until = time.perf_counter() + seconds
        parts, self._begun = self._begun or self._look(), None
        for entry in parts:
            if entry is not None:
                return entry
            if time.perf_counter() > until:
                self._begun = parts
                break
        return None

    def _look(self) -> Iterator[RunEntry | None]:
        """One look: None after each part of it, the run at its end."""
        folders = self._folders()
        if len(folders) <= _FEW:
            yield runs.read_run(self.path)
            return
        now, spent = time.time(), 0.0
        for folder in folders:
            entry = self._entries.get(folder)
            if entry is None or (entry.state in runs.ACTIVE and _is_gone(entry)):
                self._entries[folder] = runs.read_process(folder, now, _END)
            yield None
        while spent < _BUDGET:
            begin = time.perf_counter()
            if not self._turn:
                self._turn = list(folders)
            folder = self._turn.pop()
            self._entries[folder] = runs.read_process(folder, now, _END)
            spent += time.perf_counter() - begin
            yield None
        yield runs.sum_up(self.path, [self._entries[folder] for folder in folders])

    def _folders(self) -> list[Path]:
        try:
            if is_process_folder(self.path):
                return [self.path]
            with os.scandir(self.path) as found:
                folders = [Path(entry.path) for entry in found if entry.is_dir(follow_symlinks=False)]
        except OSError as error:
            raise SourceError(f"{self.path}: {(error.strerror or str(error)).lower()}") from error
        return sorted(folder for folder in folders if folder in self._entries or is_process_folder(folder))


def _is_gone(entry: ProcessEntry) -> bool:
    info = entry.info
    return info is not None and evidence.is_here(info) and evidence.process_life(info) == "gone"
