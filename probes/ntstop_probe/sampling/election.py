"""Which process of a node asks the driver: the one that holds a lock. Nobody has to be told, and no death is fatal.

The locks are record locks, not `flock`: those would live on in a forked loader worker of a process that was killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path


class Seat:
    """The right to ask, for whoever locks one of `paths`. They are tried in order; the first is the usual one.

    The others are for the case that its holder is stopped, or stuck in the driver: then it keeps its lock.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._held: tuple[int, Path] | None = None

    @property
    def held(self) -> bool:
        """True while this process has a seat, and the job has not closed the file with all others it can find."""
        if self._held is not None and not _is_still(self._held[1], self._held[0]):
            self._held = None
        return self._held is not None

    def take(self, count: int) -> bool:
        """Try the first `count` seats. False when all of them are taken. Raises `OSError` when there is no making one.

        Not for a process that has one already: closing a file lets go of all its locks.
        """
        for path in self._paths[:count]:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            if _lock(descriptor) and _is_still(path, descriptor):
                self._held = descriptor, path
                return True
            os.close(descriptor)
        return False

    def leave(self) -> None:
        """Give the seat back, with its file."""
        if self.held and self._held is not None:
            (descriptor, path), self._held = self._held, None
            # First the name, then the lock: whoever opened the file meanwhile sees that it is gone.
            with contextlib.suppress(OSError):
                path.unlink()
            os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether the locked file is the one that stands there: its last holder may have removed it before we locked it."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except OSError:
        return False
