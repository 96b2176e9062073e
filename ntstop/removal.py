"""Removing the recording of a run: which may go, how large it is, and how it goes."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from ntstop.sources import runs
from ntstop.sources.runs import RunEntry
from ntstop.viewer_state import ViewerState
from ntstop_probe import registry

SILENT = 3600.0
"""Seconds after which a run that nobody can vouch for (another host, nothing recorded yet) is taken for ended."""


def why_not(entry: RunEntry) -> str:
    """Why a run must stay, "" when it may go."""
    folder = registry.runs_folder()
    if entry.path.is_symlink() or entry.path.parent.resolve() != folder.resolve() or not entry.path.is_dir():
        return f"only runs in {folder} are removed, and {entry.path} is none"
    if entry.active:
        return f"it is {entry.state} ({entry.why})"
    if entry.problem:
        return entry.problem
    if (entry.state == "stale" or not entry.processes) and time.time() - last_activity(entry) < SILENT:
        return f"it may go on: {entry.why or 'nothing has been recorded yet'}"
    return ""


def delete(path: Path) -> str:
    """Remove the run in this folder, and what its viewers keep of it; why it stays, "" when it is gone.

    Raises `SourceError` where it cannot be read, `OSError` where it cannot be removed.
    """
    # One of the same id may have begun since it was listed.
    entry = runs.read_run(path)
    if not (reason := why_not(entry)):
        shutil.rmtree(path)
        ViewerState(entry.id).forget()
    return reason


def size_of(folder: Path) -> int:
    """Bytes of the files in a folder; links are not followed."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(path, name)).st_size
            except OSError:
                continue
    return total


def last_activity(entry: RunEntry) -> float:
    """Unix time of the last sign of life; of a folder without any, when it was changed."""
    known = entry.last_activity or entry.started
    try:
        return known if known is not None else entry.path.lstat().st_mtime
    except OSError:
        return time.time()
