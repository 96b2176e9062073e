"""The runs of this user: which there are, how they are, and which one is meant. Free of numpy and textual."""

from __future__ import annotations

import difflib
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from ntstop_probe import registry
from ntstop_probe.registry import ProcessInfo
from ntstop_probe.wire import PROTOCOL

from .base import SourceError, newer_protocol
from .evidence import State, Verdict, judge
from .segments import is_process_folder
from .tail import Tail, read_tail

ACTIVE: tuple[State, ...] = ("live", "stopped", "waiting")
"""States of a process that is there, the strongest first."""
_ENDED: tuple[State, ...] = ("failed", "died", "stale", "finished")
ENDED: tuple[State, ...] = ("failed", "died", "finished")
"""States of one from which nothing more comes."""
_LISTED = 5
_END = 65_536
"""Bytes read at the end of a recording."""
_FEW, _END_OF_MANY = 16, 8_192
"""The same in a run of more processes: of a thousand it would take a second."""


class UnknownRun(SourceError):
    """There is no run that is called `word`."""

    def __init__(self, word: str, line: str) -> None:
        super().__init__(line)
        self.word = word


@dataclass(slots=True)
class ProcessEntry:
    """One process of a run. Times are Unix seconds; what is not known is None."""

    path: Path
    info: ProcessInfo | None
    state: State
    why: str
    """The evidence for the state, one sentence."""
    rank: int | None = None
    attempt: int = 0
    first_step: int | None = None
    last_step: int | None = None
    last_loss: float | None = None
    rate: float | None = None
    """Steps a second, lately."""
    phase: str = ""
    exit_code: int | None = None
    last_activity: float | None = None
    reason: str = ""
    """Why there are no steps yet, "" when there are."""

    @property
    def training(self) -> bool:
        """False for a process that was launched with the probe but has not used torch."""
        return self.last_step is not None or self.info is None or self.info.training


@dataclass(slots=True)
class RunEntry:
    """One run, summed up over the latest attempt of each rank. Times are Unix seconds; what is not known is None."""

    id: str
    path: Path
    processes: list[ProcessEntry] = field(default_factory=list)
    state: State = "waiting"
    why: str = ""
    """The evidence for the state, one sentence."""
    started: float | None = None
    last_activity: float | None = None
    first_step: int | None = None
    last_step: int | None = None
    last_loss: float | None = None
    rate: float | None = None
    title: str | None = None
    ranks: int = 0
    """Ranks seen; a process without a rank is one."""
    attempt: int = 0
    """The latest."""
    problem: str = ""
    """One line, when the run cannot be read: no permission, a newer protocol."""

    @property
    def active(self) -> bool:
        """Whether a process of it is still there. Not where none has come: a folder alone proves nothing."""
        return bool(self.processes) and self.state in ACTIVE and not self.problem


def scan() -> list[RunEntry]:
    """All runs under `registry.runs_folder()`, the latest activity first. Runs that cannot be read carry a `problem`.

    Raises `SourceError` when the folder itself may not be read.
    """
    folder = registry.runs_folder()
    try:
        with os.scandir(folder) as found:
            paths = [Path(entry.path) for entry in found if entry.is_dir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SourceError(f"{folder}: {(error.strerror or str(error)).lower()}") from error
    entries = [_read_or_say(path) for path in paths]
    return sorted(entries, key=lambda entry: entry.last_activity or entry.started or 0.0, reverse=True)


def active_runs() -> list[RunEntry]:
    """The runs that have a process now, the newest start first."""
    return sorted((entry for entry in scan() if entry.active), key=lambda entry: entry.started or 0.0, reverse=True)


def newest_live() -> RunEntry | None:
    """The run with a process now that was started last; None when there is none."""
    return next(iter(active_runs()), None)


def resolve(text: str) -> RunEntry:
    """The run that is meant by an id, the unique beginning of one, or a folder (of a run or of a process).

    Raises `SourceError` with one line when there is none, or more than one.
    """
    runs = registry.runs_folder()
    if text and "/" not in text and (runs / text).is_dir():
        return read_run(runs / text)
    if text and ("/" in text or os.path.isdir(text)):
        folder = Path(os.path.expanduser(text))
        if _is_run(folder):
            return read_run(folder)
        if "/" in text:
            raise SourceError(_no_run_there(folder))
    ids = _ids(runs)
    matches = [name for name in ids if text and name.startswith(text)]
    if len(matches) == 1:
        return read_run(runs / matches[0])
    if matches:
        raise SourceError(f"{text!r} is the beginning of {len(matches)} runs: {_listed(matches)}")
    none = f"there is no {'run and no file' if '.' in text else 'run'} {text!r}"  # a log's name has one, mostly
    if not ids:
        raise UnknownRun(text, f"{none}: no run has been recorded yet under {runs}")
    near = difflib.get_close_matches(text, ids, n=3)
    known = f"the nearest: {_listed(near)}" if near else f"the newest: {_listed(ids[:3])}"
    raise UnknownRun(text, f"{none}; {known}; `ntstop ls` lists all")


def read_run(path: Path) -> RunEntry:
    """The entry of a run folder, or of a process folder as a run of one. Raises `SourceError` where it cannot be read.

    Reads a few KiB of each process, so it is cheap enough for once a second.
    """
    now = time.time()
    path = path.absolute()
    try:
        if is_process_folder(path):
            processes = [read_process(path, now)]
        else:
            with os.scandir(path) as found:
                folders = sorted(Path(entry.path) for entry in found if entry.is_dir(follow_symlinks=False))
            length = _END if len(folders) <= _FEW else _END_OF_MANY
            processes = [read_process(folder, now, length) for folder in folders if is_process_folder(folder)]
    except PermissionError as error:
        raise SourceError(f"{path}: permission denied (only its owner may read a run)") from error
    except OSError as error:
        raise SourceError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    return sum_up(path, processes)


def _read_or_say(path: Path) -> RunEntry:
    try:
        return read_run(path)
    except SourceError as error:
        return RunEntry(_name(path), path, state="stale", why=str(error), problem=str(error))


def read_process(folder: Path, now: float, length: int = _END) -> ProcessEntry:
    """The entry of one process, from `length` bytes at the end of its recording, or more until there are steps.

    Raises `SourceError` when it is newer than this reader.
    """
    info = _info(folder)
    if info is not None and info.protocol > PROTOCOL:
        raise SourceError(f"{folder}: {newer_protocol(info.protocol)}")
    tail = read_tail(folder, length)
    if tail.newer is not None:
        raise SourceError(f"{folder}: {newer_protocol(tail.newer)}")
    last_activity = max(
        filter(None, (tail.written, tail.heartbeat.wall if tail.heartbeat else None)),
        default=info.wall if info else None,
    )
    verdict = _judge(info, tail, last_activity, now)
    hello = tail.hello
    return ProcessEntry(
        folder,
        info,
        verdict.state,
        verdict.why,
        rank=info.rank if info else hello.rank if hello else None,
        attempt=info.attempt if info else hello.attempt if hello else 0,
        first_step=tail.first_step,
        last_step=tail.last_step,
        last_loss=tail.last_loss,
        rate=tail.rate,
        phase=tail.heartbeat.phase if tail.heartbeat else "",
        exit_code=_exit_code(tail),
        last_activity=last_activity,
        reason=tail.heartbeat.reason if tail.heartbeat else "",
    )


def _judge(info: ProcessInfo | None, tail: Tail, last_activity: float | None, now: float) -> Verdict:
    return judge(
        info,
        spoke=tail.spoke,
        exited=tail.exit is not None,
        exit_code=_exit_code(tail),
        exception=(tail.exception.text or "an exception").splitlines()[0] if tail.exception else "",
        last_activity=last_activity,
        now=now,
    )


def _info(folder: Path) -> ProcessInfo | None:
    try:
        return registry.read_process_info(folder)
    except PermissionError:
        raise
    except (OSError, ValueError):
        return None


def _exit_code(tail: Tail) -> int | None:
    code = tail.exit.data.get("code") if tail.exit else None
    return code if isinstance(code, int) else None


def sum_up(path: Path, processes: list[ProcessEntry]) -> RunEntry:
    """The entry of a run of these processes, which lies in the folder `path`."""
    training = [process for process in processes if process.training] or processes
    infos = [process.info for process in processes if process.info]
    entry = RunEntry(
        infos[0].run if infos and is_process_folder(path) else _name(path),
        path,
        sorted(processes, key=_order),
        started=min((info.wall for info in infos), default=None),
        title=next((info.title for info in infos if info.title), None),
    )
    entry.last_activity = max(filter(None, (process.last_activity for process in processes)), default=None)
    if not training:
        entry.why = "no process has announced itself yet"
        return entry
    latest = _latest_attempts(training)
    entry.ranks = len(latest)
    entry.attempt = max(process.attempt for process in latest)
    deciding = min(latest, key=lambda process: (*ACTIVE, *_ENDED).index(process.state))
    entry.state = deciding.state
    entry.why = _why(deciding, latest)
    first = min(latest, key=_order)
    entry.last_step, entry.last_loss, entry.rate = first.last_step, first.last_loss, first.rate
    entry.first_step = min((p.first_step for p in training if p.first_step is not None), default=None)
    return entry


def _latest_attempts(processes: list[ProcessEntry]) -> list[ProcessEntry]:
    """The processes of each rank that are not followed by a later attempt; siblings without a rank are all kept."""
    latest: dict[int | None, int] = {}
    for process in processes:
        latest[process.rank] = max(latest.get(process.rank, process.attempt), process.attempt)
    return [process for process in processes if process.attempt == latest[process.rank]]


def _why(deciding: ProcessEntry, latest: list[ProcessEntry]) -> str:
    if len(latest) == 1:
        return deciding.why
    lost = [process for process in latest if process.state in ("died", "failed") and process is not deciding]
    who = "one process" if deciding.rank is None else f"rank {deciding.rank}"
    others = "".join(f"; rank {process.rank}: {process.why}" for process in lost[:2])
    return f"{who}: {deciding.why}{others}"


def _order(process: ProcessEntry) -> tuple[int, int, float]:
    rank = process.rank if process.rank is not None else 0
    return rank, -process.attempt, process.info.wall if process.info else 0.0


def _name(path: Path) -> str:
    """The name of a run folder as text that any encoder takes: a name on disk may be any bytes."""
    return path.name.encode("utf-8", "replace").decode()


def _is_run(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    if is_process_folder(folder):
        return True
    try:
        return any(child.is_dir() and is_process_folder(child) for child in folder.iterdir())
    except PermissionError as error:
        raise SourceError(f"{folder}: permission denied (only its owner may read a run)") from error


def _no_run_there(folder: Path) -> str:
    if not folder.exists():
        return f"{folder}: there is no such file or folder"
    return f"{folder}: no run in it (a run folder holds process folders, which hold core-*.nts files)"


def _ids(runs: Path) -> list[str]:
    """Ids of all runs, the newest folder first."""
    try:
        with os.scandir(runs) as found:
            dated = [(entry.stat().st_mtime, entry.name) for entry in found if entry.is_dir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SourceError(f"{runs}: {(error.strerror or str(error)).lower()}") from error
    return [name for _, name in sorted(dated, reverse=True)]


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more
