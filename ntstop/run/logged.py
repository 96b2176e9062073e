"""What a job logs row by row, gathered so that it becomes curves a column at a time: 40 metrics a step are usual."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ntstop.curves.series import Series

_MOST = 1024
"""Rows that wait at most."""


class LoggedRows:
    """Rows that wait, all with the same names in the same order. Where a row with others comes, the caller settles
    what waits before it, so that the points of every curve keep their order."""

    def __init__(self, rename: Callable[[str], str]) -> None:
        """`rename` says what the curve of a name is called."""
        self._rename = rename
        self._names: tuple[str, ...] = ()
        self._values: list[tuple[float, ...]] = []
        self._x: list[float] = []
        self._t: list[float] = []

    def __bool__(self) -> bool:
        return bool(self._x)

    def takes(self, values: Mapping[str, float]) -> bool:
        """Whether a row with these names can wait with the others."""
        return not self._x or (len(self._x) < _MOST and tuple(values) == self._names)

    def add(self, x: float, t: float, values: Mapping[str, float]) -> None:
        """Let a row wait that `takes` has allowed."""
        if not self._x:
            self._names = tuple(values)
        self._values.append(tuple(values.values()))
        self._x.append(x)
        self._t.append(t)

    def settle(self, get: Callable[[str], Series]) -> None:
        """Add what waits to the curves; `get` has the curve of each name."""
        names, x, t = map(self._rename, self._names), np.array(self._x), np.array(self._t)
        columns = np.array(self._values, np.float64).reshape(len(x), len(self._names)).T.copy()
        self._values, self._x, self._t = [], [], []
        for name, column in zip(names, columns, strict=True):
            get(name).extend(x, column, t)
