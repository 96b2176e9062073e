"""Folders of TensorBoard events that are one run: what one job logs is often told in several folders.

`add_scalars("acc", {"val": …})` writes a folder `acc_val` for each key, `add_hparams` one named by the time, Keras
`train` and `validation` beside each other, an Estimator `eval` below the folder of its training.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from .batch import Batch
from .events import EventReader
from .reader import Row

_EVALUATION = frozenset({"val", "valid", "validation", "eval", "evaluation", "test", "dev"})
_TRAINING = frozenset({"train", "training"})
_HPARAMS = re.compile(r"\d{9,}\.\d+")
_HEAD = 64 * 1024
"""Bytes of a file in which its first tag is looked for."""


@dataclass(frozen=True, slots=True)
class Naming:
    """What the numbers of a folder are called in the run that it belongs to."""

    before: str = ""
    behind: str = ""

    def __call__(self, name: str) -> str:
        """The name of a tag."""
        return f"{self.before}{name}{self.behind}"


class NamedEvents(EventReader):
    """Reads an event file whose tags have other names in its run."""

    def __init__(self, naming: Naming) -> None:
        super().__init__()
        self._naming = naming

    def feed(self, data: bytes) -> list[Row]:
        """See `EventReader`."""
        return [self._named(row) for row in super().feed(data)]

    def feed_batch(self, data: bytes) -> Batch | list[Row]:
        """See `EventReader`."""
        found = super().feed_batch(data)
        if isinstance(found, list):
            return [self._named(row) for row in found]
        values = {self._naming(name): column for name, column in found.values.items()}
        return Batch(found.count, found.steps, found.walls, values)

    def _named(self, row: Row) -> Row:
        return Row(row.step, {self._naming(name): value for name, value in row.values.items()}, row.wall)


def reader_of(naming: Naming) -> Callable[[], EventReader]:
    """What makes a reader for the files of a folder."""
    return EventReader if naming == Naming() else partial(NamedEvents, naming)


def home_of(folder: Path, folders: Collection[Path], first_file: Callable[[Path], Path | None]) -> tuple[Path, Naming]:
    """The folder of the run that a folder of events belongs to, most often itself, and how its numbers are called.

    `folders` are all that have events; `first_file` gives an event file of one.
    """
    name, parent = folder.name, folder.parent
    word = name.lower()
    if parent in folders:
        if _HPARAMS.fullmatch(name):
            return parent, Naming()
        if word in _EVALUATION:
            return parent, Naming(f"{name}/")
        if (key := _key_of(name, first_file(folder))) is not None:
            return parent, Naming("", f"/{key}")
    elif word in _EVALUATION | _TRAINING:
        beside = {other.name.lower() for other in folders if other.parent == parent}
        if beside & _EVALUATION and beside & _TRAINING:
            return parent, Naming(f"{name}/")
    return folder, Naming()


def _key_of(name: str, path: Path | None) -> str | None:
    """The key of `add_scalars` that a folder is for: its tags are all the main tag, with which its name begins."""
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            rows = EventReader().feed(file.read(_HEAD))
    except OSError:
        return None
    for tag in next(({*row.values} for row in rows if row.values), set()):
        start = f"{tag.replace('/', '_')}_"
        if name.startswith(start) and len(name) > len(start):
            return name[len(start) :]
    return None
