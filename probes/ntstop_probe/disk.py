"""How much disk a process may take for its recording, and which of its segments go when that is used up."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from .registry import Tombstone, segment_name, write_tombstone
from .say import say

DEFAULT = 2_000_000_000
"""Bytes a process: a day of layers at ten samples a second of 150 of them; the curves of a month are a tenth of it."""
_PARTS = 8
"""Segments that fit into the limit at least: what goes at once is to be a small part of it."""
_LEAST_SEGMENT = 64 * 1024
SPARE_NAME = ".spare"
SPARE_BYTES = 32 * 1024
"""Who this is, and some hundred of the last steps."""
_UNITS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def limit_of(text: str | None) -> int:
    """`NTSTOP_MAX_DISK` ("5GB", "500MiB", bytes) in bytes; what is no size is said, and is the default."""
    if not text:
        return DEFAULT
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", text.strip().lower())
    if not found:
        say(f"NTSTOP_MAX_DISK={text!r} is no size such as 5GB; it is {DEFAULT / 1e9:.0f}GB now")
        return DEFAULT
    return int(float(found[1]) * (1024 if found[3] else 1000) ** _UNITS[found[2]])


class Room:
    """Keeps the segments of one process under `limit` bytes: the oldest of the layers go first, whole, and a tombstone
    says so. The core (the loss, the events) is never touched; where it fills the limit alone, layers are recorded no
    more (`layers_stopped`)."""

    def __init__(self, folder: Path, limit: int, segment_bytes: int) -> None:
        self._folder = folder
        self._limit = limit
        self.segment_bytes = min(segment_bytes, max(_LEAST_SEGMENT, limit // _PARTS))
        self._core = 0
        self._layers: list[tuple[int, int, int]] = []
        """Number, bytes and frames of the closed segments, the oldest first."""
        self._gone = Tombstone()
        self.layers_stopped = False

    def closed(self, *, is_core: bool, number: int, size: int, frames: int) -> None:
        """A segment has got its last frame."""
        if is_core:
            self._core += size
        else:
            self._layers.append((number, size, frames))

    def make(self) -> None:
        """Before a segment is opened: room for it, and for that of the other stream. Raises `OSError`."""
        used = self._core + sum(size for _, size, _ in self._layers) + 2 * self.segment_bytes
        removed = False
        while used > self._limit and self._layers:
            number, size, frames = self._layers.pop(0)
            (self._folder / segment_name("layers", number)).unlink(missing_ok=True)
            used -= size
            gone = self._gone
            self._gone = Tombstone(gone.segments + 1, gone.frames + frames, gone.bytes + size)
            removed = True
        if used > self._limit:
            self.layers_stopped = True
        if removed:
            write_tombstone(self._folder, self._gone)


class Spare:
    """A little disk that is held until the last words of a process, which on a full disk are to find room.

    Whether a job has ended or died is told by its exit record.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / SPARE_NAME
        try:
            # Bytes that no file system makes smaller.
            with open(self._path, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                file.write(os.urandom(SPARE_BYTES))
        except OSError:
            self.free()

    def free(self) -> None:
        """The disk is no longer held. Raises nothing."""
        with contextlib.suppress(OSError):
            self._path.unlink()


def limit_from_environment() -> int:
    """What `NTSTOP_MAX_DISK` says."""
    return limit_of(os.environ.get("NTSTOP_MAX_DISK"))
