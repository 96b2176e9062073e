"""What logs lie at a path: one file, or a folder with the files of one run or of several."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from ..base import SourceError
from .events import is_events
from .families import Naming, home_of, reader_of
from .names import is_step
from .reader import Row
from .roles import guess
from .sniff import Ends, MakeReader, has_metrics, is_binary, read_ends, reader_for, structured
from .source import LogPart, LogTarget
from .trainer_state import TrainerStateReader
from .wandb import MAGIC as WANDB_MAGIC

_DEPTH = 6
_MOST_ENTRIES = 50_000
"""Files and folders of a folder that are looked at."""
_MOST_TEXTS = 2_000
"""Files, the newest first, whose text is read to see what they are."""
_LARGEST_TABLE_HEAD = 64
_NOT_ENTERED = frozenset({"node_modules", "__pycache__", "site-packages", ".git", ".venv", "venv", ".cache"})
_CHECKPOINT = re.compile(r"checkpoint-\d+")


def log_targets(path: Path, pattern: re.Pattern[str] | None = None) -> list[LogTarget]:
    """The runs that are logged at `path`, the newest first; raises `SourceError` with one line where there are none.

    With `pattern`, `path` is a text, and its lines are read by it.
    """
    path = Path(os.path.expanduser(path))
    if not path.is_dir():
        ends = read_ends(path)
        part = LogPart(path, reader_for(path, ends, pattern))
        return [LogTarget(_name(path), path, path.stat().st_mtime, (part,))]
    if pattern is not None:
        raise SourceError(f"{path} is a folder: --pattern is for one file")
    targets = sorted(_folder(path), key=lambda target: target.modified, reverse=True)
    if not targets:
        raise SourceError(f"{path}: neither a run nor a log in it that ntstop can read")
    return targets


def _folder(root: Path) -> list[LogTarget]:
    files = sorted(_walk(root), key=lambda found: -found[1])
    events: dict[Path, list[tuple[Path, float]]] = {}
    states: dict[Path, tuple[Path, float]] = {}
    single: list[tuple[Path, float, MakeReader]] = []
    texts: list[tuple[Path, float]] = []
    for path, modified in files:
        kind = _kind(path)
        if kind == "events":
            events.setdefault(path.parent, []).append((path, modified))
        elif kind == "wandb" or (kind == "text" and len(texts) < _MOST_TEXTS):
            make = _structured(path)
            if make is TrainerStateReader:
                home = path.parent.parent if _CHECKPOINT.fullmatch(path.parent.name) else path.parent
                states.setdefault(home, (path, modified))
            elif make is not None:
                single.append((path, modified, make))
            if kind == "text":
                texts.append((path, modified))
    targets = [_events_target(root, home, found) for home, found in _by_home(events).items()]
    targets += [
        LogTarget(_name(path), path, modified, (LogPart(path, make),))
        for path, modified, make in single
        if path.parent not in events
    ]
    targets += [
        _state_target(home, path, modified)
        for home, (path, modified) in states.items()
        if not any(home == folder or home in folder.parents for folder in events)
    ]
    return targets or list(_text_targets(texts))


Events = dict[Path, list[tuple[Path, float]]]
"""Folders to their event files, and when these changed."""
Named = list[tuple[Path, float, Naming]]


def _by_home(events: Events) -> dict[Path, Named]:
    """The event files of each run: those of a folder, and of the folders that belong to it."""
    homes: dict[Path, Named] = {}
    for folder, found in events.items():
        home, naming = home_of(folder, events, lambda folder: min(path for path, _ in events[folder]))
        homes.setdefault(home, []).extend((path, modified, naming) for path, modified in found)
    return homes


def _events_target(root: Path, home: Path, found: Named) -> LogTarget:
    """All event files of a folder are one run, in the order of their names, which begin with the time."""

    def again() -> list[LogPart]:
        return _event_parts(_by_home(_events_near(home)).get(home, []))

    parts = tuple(_event_parts(found))
    name = home.name if home != root else _name(home)
    together = len({path.parent for path, _, _ in found}) > 1
    return LogTarget(name, home, max(modified for _, modified, _ in found), parts, again, together)


def _event_parts(found: Named) -> list[LogPart]:
    return [LogPart(path, reader_of(naming)) for path, _, naming in sorted(found, key=lambda each: each[0])]


def _events_near(home: Path) -> Events:
    """The event files of a folder and of those below it."""
    events: Events = {}
    for path, modified in _walk(home, 1):
        if _kind(path) == "events":
            events.setdefault(path.parent, []).append((path, modified))
    return events


def _state_target(home: Path, path: Path, modified: float) -> LogTarget:
    """The newest state of a run has the whole history; each checkpoint brings a newer one."""

    def again() -> list[LogPart]:
        found = [*home.glob("checkpoint-*/trainer_state.json"), *home.glob("trainer_state.json")]
        dated = []
        for state in found:
            with contextlib.suppress(OSError):
                dated.append((state.stat().st_mtime, state))
        return [LogPart(max(dated)[1], TrainerStateReader)] if dated else []

    return LogTarget(_name(home), path, modified, (LogPart(path, TrainerStateReader),), again)


def _text_targets(texts: list[tuple[Path, float]]) -> Iterator[LogTarget]:
    for path, modified in texts[:100]:
        try:
            ends = read_ends(path)
        except SourceError:
            continue
        if ends.head and has_metrics(ends):
            yield LogTarget(_name(path), path, modified, (LogPart(path, reader_for(path, ends)),))


def _structured(path: Path) -> MakeReader | None:
    """The reader of a file that was not named by the user: a table must have a step and a metric that is known."""
    try:
        ends = read_ends(path)
        make = structured(ends)
    except SourceError:
        return None
    if make is None or make is TrainerStateReader or ends.head.startswith(WANDB_MAGIC):
        return make
    return make if _is_training(ends, make) else None


def _is_training(ends: Ends, make: MakeReader) -> bool:
    reader = make()
    rows: list[Row] = reader.feed(ends.head[:16_384]) + reader.end()
    names = {name for row in rows[:_LARGEST_TABLE_HEAD] for name in row.values}
    has_step = any(row.step is not None for row in rows) or any(is_step(name) for name in names)
    return has_step and any(guess(name).role not in ("other", "epoch", "samples", "tokens") for name in names)


def _kind(path: Path) -> str:
    """ "events", "wandb", "text" or "", by the first bytes."""
    try:
        with open(path, "rb") as file:
            head = file.read(256)
    except OSError:
        return ""
    if head.startswith(WANDB_MAGIC):
        return "wandb"
    if is_events(head):
        return "events"
    return "text" if head and not is_binary(head) else ""


def _walk(root: Path, deepest: int = _DEPTH) -> Iterator[tuple[Path, float]]:
    """Regular files below a folder and when they changed; links are not followed."""
    waiting = [(root, 0)]
    left = _MOST_ENTRIES
    while waiting:
        folder, depth = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    left -= 1
                    if left < 0:
                        return
                    if entry.name in _NOT_ENTERED:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        if depth < deepest:
                            waiting.append((Path(entry.path), depth + 1))
                    elif (modified := _regular(entry)) is not None:
                        yield Path(entry.path), modified
        except OSError:
            continue


def _regular(entry: os.DirEntry[str]) -> float | None:
    """When a regular file changed; None for what is none, such as a link to nothing or to itself."""
    try:
        found = entry.stat(follow_symlinks=True)
    except OSError:
        return None
    return found.st_mtime if stat.S_ISREG(found.st_mode) else None


def _name(path: Path) -> str:
    """A name for people: that of the file with its folder, where the file's own says little."""
    is_folder = path.is_dir()
    path = Path(str(path.absolute()).encode("utf-8", "replace").decode())
    return path.name if path.parent == path or is_folder else f"{path.parent.name}/{path.name}".lstrip("/")
