"""Where the live socket stands: a folder that is provably this user's own, and a name nobody can guess or steal."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import socket
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from .registry import boot_id

MAX_PATH_BYTES = 107
"""`sun_path` holds 108 bytes with its closing zero; a longer path is cut off by some systems without a word."""

MAX_SWEEP = 64
"""Sockets that are looked at."""
YOUNG = 60.0
"""Seconds."""


def socket_path() -> Path:
    """A fresh path for an ipc socket. Raises `OSError` when there is no folder that is safe to use."""
    name = f"{_prefix()}{secrets.token_hex(6)}.sock"
    folder = safe_folder(MAX_PATH_BYTES - len(name) - 1)
    _sweep(folder)
    return folder / name


def _prefix() -> str:
    """Of the sockets of this boot of this host: a folder may be shared by several."""
    return f"ntstop-{hashlib.sha256(boot_id().encode()).hexdigest()[:6]}-"


def _sweep(folder: Path) -> None:
    """Remove the sockets that processes which were killed have left: nobody answers there any more."""
    for path in list(folder.glob(f"{_prefix()}*.sock"))[:MAX_SWEEP]:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
            # A young one may not listen yet.
            if time.time() - path.lstat().st_mtime < YOUNG:
                continue
            probe.setblocking(False)
            if probe.connect_ex(os.fspath(path)) == errno.ECONNREFUSED:
                path.unlink()


def safe_folder(max_bytes: int = 4096) -> Path:
    """A folder on this host that only this user can enter, its path no longer than `max_bytes`. Raises `OSError`."""
    problems: list[str] = []
    for folder in _folders():
        try:
            _verify(folder)
        except OSError as error:
            problems.append(str(error))
            continue
        if len(os.fsencode(folder)) <= max_bytes:
            return folder
        problems.append(f"{folder}: longer than {max_bytes} bytes")
    raise OSError("; ".join(problems))


def _folders() -> Iterator[Path]:
    """Candidates, best first. Slurm may export the login node's XDG_RUNTIME_DIR, which does not exist here."""
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        yield Path(runtime)
    for parent in dict.fromkeys((tempfile.gettempdir(), "/tmp")):
        folder = Path(parent) / f"ntstop-{os.getuid()}"
        # There already: to be verified. Not to be made: the verification says why.
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700)
        yield folder


def _verify(folder: Path) -> None:
    """Raise `OSError` unless `folder` is a real directory of this user's that nobody else can enter."""
    state = os.lstat(folder)
    if not stat.S_ISDIR(state.st_mode):
        raise OSError(f"{folder}: not a folder")
    if state.st_uid != os.getuid():
        raise OSError(f"{folder}: belongs to user {state.st_uid}")
    if stat.S_IMODE(state.st_mode) & 0o077:
        raise OSError(f"{folder}: others may enter it (mode {stat.S_IMODE(state.st_mode):04o})")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OSError(f"{folder}: not writable")
