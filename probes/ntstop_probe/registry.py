"""Where runs live on disk, and how a process announces itself there. Shared by the probe and the monitor.

$NTSTOP_HOME/runs/<run id>/                     mode 0700
    <host>-<pid>-<start time>/                  one a process; a restart or requeue is a new one (an attempt)
        process.json                            `ProcessInfo`, written by temp + rename
        core-000000.nts, core-000001.nts …      frames of the core stream, in segments; mode 0600
        layers-000000.nts …                     frames of the layers stream
"""

from __future__ import annotations

import errno
import os
import re
import stat
import tempfile
from pathlib import Path

import msgspec

PROCESS_FILE = "process.json"
_MOST_INFO = 64 * 1024
"""Bytes of it that are read; it has one."""
TOMBSTONE_FILE = "layers.gone.json"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class ProcessInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What must be known of a writer before any of its frames is read: who it is and where it can be heard."""

    protocol: int
    run: str
    folder: str
    writer: int
    """The id in its frames."""
    host: str
    boot: str
    pid_namespace: str
    pid: int
    started: float
    """Seconds since boot, as in /proc/PID/stat."""
    wall: float
    """Unix time of the announcement."""
    rank: int | None = None
    world: int | None = None
    attempt: int = 0
    title: str | None = None
    endpoint: str | None = None
    """ZeroMQ address of the live socket; None: nobody can listen."""
    probe: str = ""
    training: bool = True
    """False while the process only waits: it was launched, but has not used torch yet."""


class Tombstone(msgspec.Struct, frozen=True):
    """What of the layers was removed to keep to the limit of the disk: whole segments, the oldest first."""

    segments: int = 0
    frames: int = 0
    bytes: int = 0


def home() -> Path:
    """The folder of everything: `$NTSTOP_HOME`, else `${XDG_STATE_HOME:-~/.local/state}/ntstop`.

    Raises `OSError` where that is nowhere: a home folder nobody has, or a path relative to a folder that is gone.
    """
    explicit = os.environ.get("NTSTOP_HOME")
    state = explicit or os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    try:
        folder = Path(state).expanduser().absolute()
    except (RuntimeError, FileNotFoundError) as error:
        raise FileNotFoundError(errno.ENOENT, "no such place; set NTSTOP_HOME to a full path", state) from error
    return folder if explicit else folder / "ntstop"


def runs_folder() -> Path:
    """`home()/runs`."""
    return home() / "runs"


def make_private(folder: Path) -> None:
    """Make a folder that only this user may enter, and so the missing ones above it, whatever the umask. Raises
    `OSError`."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)


def safe_name(text: str) -> str:
    """`text` as a file name: at most 100 ASCII letters, digits, dots, dashes and underscores, never empty."""
    return _UNSAFE.sub("-", text).strip(".-")[:100] or "run"


def process_folder_name(host: str, pid: int, started: float) -> str:
    """`<host>-<pid>-<start time in hundredths of a second since boot>`."""
    return f"{safe_name(host)}-{pid}-{round(started * 100)}"


def segment_name(stream: str, number: int) -> str:
    """File name of a segment of the stream "core" or "layers"."""
    return f"{stream}-{number:06d}.nts"


def write_process_info(folder: Path, info: ProcessInfo) -> None:
    """Announce a writer: atomically, so that a reader sees the old file or the new one. Raises `OSError`."""
    _write_json(folder, PROCESS_FILE, info)


def write_tombstone(folder: Path, gone: Tombstone) -> None:
    """Say what was removed, in the same way. Raises `OSError`."""
    _write_json(folder, TOMBSTONE_FILE, gone)


def read_tombstone(folder: Path) -> Tombstone:
    """What was removed; nothing where that cannot be read."""
    try:
        with os.fdopen(open_file(folder / TOMBSTONE_FILE), "rb") as file:
            return msgspec.json.decode(file.read(_MOST_INFO), type=Tombstone)
    except (OSError, ValueError, RecursionError):
        return Tombstone()


def _write_json(folder: Path, name: str, content: msgspec.Struct) -> None:
    handle, temporary = tempfile.mkstemp(prefix=".process-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(content)) + b"\n")
        os.replace(temporary, folder / name)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_process_info(folder: Path) -> ProcessInfo:
    """The announcement in a process folder. Raises `OSError`, or `ValueError` when it cannot be understood."""
    path = folder / PROCESS_FILE
    try:
        with os.fdopen(open_file(path), "rb") as file:
            return msgspec.json.decode(file.read(_MOST_INFO), type=ProcessInfo)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from error


def open_file(path: Path) -> int:
    """A descriptor to read a file of a run from. Raises `OSError`, also for what is no file: a pipe or a device that
    lies where a file should be would keep its reader waiting for ever."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "Not a file", str(path))
    return descriptor


def process_start_time(pid: int) -> float | None:
    """Start of a process in seconds since boot, None when there is no such process (or no /proc)."""
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The command name, in parentheses, may itself hold spaces, parentheses, and half of a character.
    ticks = int(line.rpartition(b")")[2].split()[19])
    return ticks / os.sysconf("SC_CLK_TCK")


def boot_id() -> str:
    """Changes with every boot of the host; "" where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def pid_namespace() -> str:
    """Name of this process's pid namespace, in which alone its pid means something; "" where unknown."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
