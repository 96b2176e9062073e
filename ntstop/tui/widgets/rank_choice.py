"""Which of many ranks have a row of the map: those that were slowest in view, those of findings, and others between."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from ...run.process import ProcessState
from ..raster.heat import HeatSpec

Ranks = Mapping[int | None, ProcessState]

MOST_RANKS = 64
"""Rows of the map."""
SLOW = NAMED = MOST_RANKS // 4
"""Of these, at most so many for the slowest ranks, and for those of findings."""
BATCH = 32
"""Ranks of one look: their steps in view take 6 ms, those of a thousand ranks 0.2 s."""
SECONDS = 5.0
"""How long the same ranks are shown, while the same steps are: rows that change places are hard to read."""


class RankChoice:
    """Looks at all ranks in turn, some at a time, and chooses among what it has seen."""

    def __init__(self) -> None:
        self.chosen: list[int | None] = []
        self._names: list[int | None] = []
        """What they were chosen from."""
        self._slowness: dict[int | None, float] = {}
        """Step time over the median of the ranks that were looked at together, where it was longest."""
        self._turn = 0
        self._left = 0
        """Looks until all have been looked at since something else came into view."""
        self._until = 0.0

    @property
    def is_complete(self) -> bool:
        """Whether all have been looked at since something else came into view."""
        return not self._left

    def view_changes(self) -> None:
        """Other steps are in view."""
        self._left = self._turns

    def look(
        self, ranks: Ranks, named: Collection[int | None], now: float, spec_of: Callable[[Ranks], HeatSpec]
    ) -> None:
        """Look at the next few, and choose anew when that is due. `named`: ranks that findings are about."""
        if self._names != (names := list(ranks)):
            self._names, self._slowness = names, {rank: self._slowness.get(rank, 0.0) for rank in names}
            self._left, self._until = self._turns, 0.0
        some = names[self._turn % self._turns :: self._turns]
        self._turn += 1
        self._slowness.update(zip(some, _slowness(spec_of({rank: ranks[rank] for rank in some})), strict=False))
        was_left, self._left = self._left, max(self._left - 1, 0)
        if now >= self._until or was_left == 1:
            self.chosen = chosen_of(names, self._slowness, named)
            self._until = now + SECONDS

    @property
    def _turns(self) -> int:
        return max(-(-len(self._names) // BATCH), 1)


def chosen_of(
    names: Sequence[int | None], slowness: Mapping[int | None, float], named: Collection[int | None] = ()
) -> list[int | None]:
    """At most `MOST_RANKS` of the ranks, in their order: all where they are no more."""
    if len(names) <= MOST_RANKS:
        return list(names)
    slow = sorted(names, key=lambda rank: -slowness.get(rank, 0.0))[:SLOW]
    told = [rank for rank in names if rank in named][:NAMED]
    # No fixed distance: every eighth rank would be the same place of each host.
    spread = np.linspace(0, len(names) - 1, MOST_RANKS - len({*slow, *told})).round().astype(int)
    kept = {*slow, *told, *(names[place] for place in spread)}
    return [rank for rank in names if rank in kept]


def _slowness(spec: HeatSpec) -> list[float]:
    if spec.values is None or not spec.values.size:
        return []
    worst: list[float] = np.where(np.isfinite(spec.values), spec.values, 0.0).max(axis=1).tolist()
    return worst
