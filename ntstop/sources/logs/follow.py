"""A file that is read while others write it: it grows, shrinks, or is replaced by another."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NamedTuple

_HEAD = 512
"""First bytes of a file by which it is known again."""
WHOLE_MOST = 256 * 1024 * 1024
"""Bytes of a file that is read as a whole."""


class Piece(NamedTuple):
    """What a look at the file has brought."""

    data: bytes
    anew: bool = False
    """The file is another, or was written anew: `data` is its beginning."""


class Follower:
    """Reads what is new in a file; between two looks the file is closed. A file that has gone keeps its place."""

    def __init__(self, path: Path, *, whole: bool = False) -> None:
        self.path = path
        self.problem = ""
        """Why it cannot be read now, one line."""
        self.size = 0
        self.modified = 0.0
        """Unix time of its last change."""
        self._whole = whole
        self._offset = 0
        self._head = b""
        self._seen: tuple[int, ...] = ()
        """Inode, size and time of change (ns) when all had been read."""

    @property
    def at_end(self) -> bool:
        """All that was there at the last look has been read."""
        return self._offset >= self.size

    def read(self, most: int) -> Piece | None:
        """Up to `most` new bytes (all, of a file that is read as a whole); None when there is nothing new."""
        try:
            found = os.stat(self.path)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(0, "not a file any more")
            self.size, self.modified = found.st_size, found.st_mtime
            mark = (found.st_ino, found.st_size, found.st_mtime_ns)
            if mark == self._seen:
                return None
            piece = self._read(found, most)
        except OSError as error:
            self.problem = f"{self.path}: {(error.strerror or str(error)).lower()}"
            return None
        self.problem = ""
        if self.at_end:
            self._seen = mark
        return piece

    def _read(self, found: os.stat_result, most: int) -> Piece | None:
        with open(self.path, "rb") as file:
            head = file.read(_HEAD)
            known = self._head[: len(head)]
            anew = found.st_size < self._offset or head[: len(known)] != known
            if anew:
                self._offset = 0
            self._head = head
            if self._whole:
                if found.st_size > WHOLE_MOST:
                    raise OSError(0, f"too large to be read as a whole ({found.st_size >> 20} MiB)")
                file.seek(0)
                self._offset = found.st_size
                return Piece(file.read(found.st_size), anew)
            file.seek(self._offset)
            data = file.read(most)
        self._offset += len(data)
        return Piece(data, anew) if data or anew else None
