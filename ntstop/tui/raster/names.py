"""Layer names to the labels of a few rows: what all share is dropped, neighbours of one module become one row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...text import safe


@dataclass(frozen=True, eq=False, slots=True)
class Rows:
    """Which layers each row stands for, and what to call it. `prefix` is what was dropped from every name."""

    labels: list[str]
    members: list[NDArray[np.int64]]
    prefix: str = ""

    @property
    def layers(self) -> int:
        """How many layers there are in all rows together."""
        return sum(map(len, self.members))


@lru_cache(maxsize=32)
def group_rows(names: tuple[str, ...], most: int) -> Rows:
    """Rows for `names` (dotted module paths, in model order), `most` at most.

    Where they are too many, layers of one module share a row, at the finest depth of the module tree that fits; where
    that leaves half of the rows empty, or does not fit, neighbours are shared out evenly. The order is kept.
    """
    if most < 1 or not names:
        return Rows([], [])
    paths = [tuple(safe(name).split(".")) for name in names]
    shared = _shared_parts(paths)
    prefix = "".join(part + "." for part in paths[0][:shared])
    paths = [path[shared:] for path in paths]
    if len(paths) <= most:
        return Rows([".".join(path) for path in paths], [np.array([index]) for index in range(len(paths))], prefix)
    modules = finer = [[index] for index in range(len(paths))]
    for depth in range(max(map(len, paths)) - 1, 0, -1):
        groups: dict[tuple[str, ...], list[int]] = {}
        for index, path in enumerate(paths):
            groups.setdefault(path[:depth], []).append(index)
        modules = list(groups.values())
        if len(modules) <= most:
            break
        finer = modules
    if not most / 2 < len(modules) <= most:
        # The finest depth that fits would leave rows empty, or none fits: neighbours of the next finer one share rows.
        chunks = np.array_split(np.arange(len(finer)), most)
        modules = [[index for group in chunk.tolist() for index in finer[group]] for chunk in chunks]
    labels = [_counted(_common_name(paths, members), len(members)) for members in modules]
    return Rows(labels, [np.array(members) for members in modules], prefix)


def _shared_parts(paths: list[tuple[str, ...]]) -> int:
    """Leading parts that all paths share; the last part of a path is never among them."""
    shared = min(len(path) for path in paths) - 1 if len(paths) > 1 else 0
    first, last = min(paths), max(paths)
    return next((depth for depth in range(shared) if first[depth] != last[depth]), shared)


def _counted(label: str, layers: int) -> str:
    return f"{label} ×{layers}" if layers > 1 else label


def _common_name(paths: list[tuple[str, ...]], members: list[int]) -> str:
    """The module whose layers these are, all of them; else its first and last part among them: `h.0…3`."""
    first, last = paths[members[0]], paths[members[-1]]
    if len(members) == 1:
        return ".".join(first)
    shared = _shared_parts([paths[index] for index in members])
    module = first[:shared]
    if shared and sum(path[:shared] == module for path in paths) == len(members):
        return ".".join(module)
    return ".".join((*module, f"{first[shared]}…{last[shared]}"))
