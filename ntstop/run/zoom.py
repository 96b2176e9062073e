"""Curves and layers as finely as a view asks for: from memory, and where that is too coarse from the recording.

What memory lacks is read in the background (see `detail`): until it has come, the coarse buckets are what there is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ntstop.curves.buckets import Buckets
from ntstop.curves.matrix import Flags, LayerMatrix, MatrixWindow
from ntstop.curves.series import Series

from .detail import Detail, DetailReader, folders_of
from .process import ProcessState
from .state import RunState

ENOUGH = 0.5
"""Buckets for each column asked for, below which a view is too coarse: the next level of a pyramid has four times."""
MOST_KNOWN = 256
"""Windows that are kept until the next record."""

_Part = TypeVar("_Part", Buckets, MatrixWindow)


class Zoom:
    """Looks at the curves of one run; `folder` is where its recording lies, None where there is none.

    Everything here is to be called under the session's lock. `arrived` is called, from another thread, when there is
    more to see than before.
    """

    def __init__(self, folder: Path | None, arrived: Callable[[], None]) -> None:
        self._folder = folder
        self._reader = DetailReader(arrived)
        self._known: dict[Hashable, Any] = {}
        """What was asked for since the last record: moving the cursor asks for the same again."""
        self._known_of: tuple[RunState | None, int, Detail | None] = (None, -1, None)

    def close(self) -> None:
        """Read nothing any more."""
        self._reader.close()

    @property
    def is_reading(self) -> bool:
        """Whether old steps are being read, and the curves will become finer."""
        return self._reader.is_reading

    def window(
        self, state: RunState, process: ProcessState, name: str, x0: float, x1: float, columns: int, *,
        edges: bool = False,
    ) -> Buckets:  # fmt: skip
        """`Series.window` of the series `name`, as fine as the recording has it. Raises `KeyError`."""
        wish = id(process), name, x0, x1, columns, edges
        known = self._asked_for(state)
        if wish not in known:
            known[wish] = self._window(state, process, name, x0, x1, columns, edges)
        found: Buckets = known[wish]
        return found

    def _window(
        self, state: RunState, process: ProcessState, name: str, x0: float, x1: float, columns: int, edges: bool
    ) -> Buckets:
        series = process.series[name]
        coarse = series.window(x0, x1, columns, edges=edges)
        if len(coarse) >= ENOUGH * columns or not (coarse.count > 1).any():
            self._reader.forget_unused()
            return coarse
        detail = self._detail(state, process, x0, x1, series.x_range)
        fine = detail.track.series.get(name) if detail else None
        if detail is None or fine is None:
            return coarse
        part = fine.window(x0, min(x1, detail.x1), columns, edges=edges)
        return _joined(part, coarse, detail.x1)

    def layers(
        self, state: RunState, process: ProcessState, field: str, x0: float, x1: float, columns: int
    ) -> MatrixWindow:
        """`LayerMatrix.window` of `field`, as fine as the recording has it. Raises `KeyError`."""
        wish = id(process), field, x0, x1, columns
        known = self._asked_for(state)
        if wish not in known:
            known[wish] = self._layers(state, process, field, x0, x1, columns)
        found: MatrixWindow = known[wish]
        return found

    def _asked_for(self, state: RunState) -> dict[Hashable, Any]:
        """What is known still: nothing once a record or a stretch of the recording has come."""
        detail, (of, version, before) = self._reader.at_hand, self._known_of
        if of is not state or version != state.version or before is not detail or len(self._known) >= MOST_KNOWN:
            self._known, self._known_of = {}, (state, state.version, detail)
        return self._known

    def _layers(
        self, state: RunState, process: ProcessState, field: str, x0: float, x1: float, columns: int
    ) -> MatrixWindow:
        matrix = process.layers[field]
        coarse = matrix.window(x0, x1, columns)
        if len(coarse) >= ENOUGH * columns or not (coarse.x_last > coarse.x_first).any():
            self._reader.forget_unused()
            return coarse
        detail = self._detail(state, process, x0, x1, matrix.x_range)
        fine = detail.track.layers.get(field) if detail else None
        if detail is None or fine is None or fine.layers != matrix.layers:
            return coarse
        return _joined(fine.window(x0, min(x1, detail.x1), columns), coarse, detail.x1)

    def point_at(self, process: ProcessState, name: str, x: float) -> tuple[float, float] | None:
        """`Series.point_at`, from the stretch that is at hand where `x` lies in it."""
        fine = self._at_hand(process, x)
        series = fine.track.series.get(name) if fine else None
        point = series.point_at(x) if series is not None else None
        # A curve with few points may have none in the stretch that was read.
        return point or (process.series.get(name) or _NOTHING).point_at(x)

    def layers_at(self, process: ProcessState, field: str, x: float) -> tuple[NDArray[np.float32], Flags]:
        """`LayerMatrix.column_at`, from the stretch that is at hand where `x` lies in it. Raises `KeyError`."""
        return self._matrix_at(process, field, x).column_at(x)

    def sample_at(self, process: ProcessState, field: str, x: float) -> tuple[float, float] | None:
        """`LayerMatrix.steps_at` of the same."""
        return self._matrix_at(process, field, x).steps_at(x)

    def _matrix_at(self, process: ProcessState, field: str, x: float) -> LayerMatrix:
        matrix, fine = process.layers[field], self._at_hand(process, x)
        found = fine.track.layers.get(field) if fine else None
        is_same = found is not None and found.layers == matrix.layers and found.steps_at(x) is not None
        return found if found is not None and is_same else matrix

    def _at_hand(self, process: ProcessState, x: float) -> Detail | None:
        detail = self._reader.at_hand
        is_same = detail is not None and detail.track.rank == process.track.rank
        return detail if detail is not None and is_same and detail.x0 <= x <= detail.x1 else None

    def _detail(
        self, state: RunState, process: ProcessState, x0: float, x1: float, reach: tuple[float, float] | None
    ) -> Detail | None:
        if self._folder is None or reach is None:
            return None
        folders = folders_of(self._folder, state, process)
        return self._reader.get(folders, max(x0, reach[0]), x1, reach[1])


_NOTHING = Series()


def _joined(part: _Part, coarse: _Part, until: float) -> _Part:
    """What was read, and behind it what has come since."""
    later = coarse.x_first > until
    if len(part) <= len(coarse) - np.count_nonzero(later):
        # Pruned, or damaged: memory has more than the disk.
        return coarse
    if not later.any():
        return part
    # The layers of a window stand in rows, and all else has one dimension.
    columns = {
        field.name: np.concatenate((getattr(part, field.name), getattr(coarse, field.name)[..., later]), axis=-1)
        for field in fields(part)
    }
    return type(part)(**columns)
