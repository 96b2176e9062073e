"""Where the live socket stands: a folder that is provably this user's own, and a name nobody can guess or steal."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

MAX_PATH_BYTES = 107
"""`sun_path` holds 108 bytes with its closing zero; a longer path is cut off by some systems without a word."""


def socket_path() -> Path:
    """A fresh path for an ipc socket. Raises `OSError` when there is no folder that is safe to use."""
    name = f"ntstop-{secrets.token_hex(6)}.sock"
    return safe_folder(MAX_PATH_BYTES - len(name) - 1) / name


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
