"""The step time of every rank over the steps, beside the median of all: a straggler is a dark row."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from textual.app import ComposeResult

from ...run.process import ProcessState
from ..raster.heat import HeatSpec
from ..view import StepView
from ..workspace import Look
from .heatmap import HeatMap
from .pane import Pane
from .phases import STEP_TIME

BAND = (0.8, 1.25)
"""Step time over the median of the ranks that is drawn neutral: jitter of a healthy run."""
MOST_RANKS = 64
"""Rows that are looked at; of more ranks, evenly spread ones and the slowest."""
MOST_COLUMNS = 100
RECENT = 32
"""Newest steps by which the slowest ranks are found."""
FRESH_SECONDS = 0.8
"""How long the choice of rows stands, among many ranks."""


def chosen_ranks(ranks: dict[int | None, ProcessState]) -> list[int | None]:
    """Ranks for the map: all, or evenly spread ones with those of the longest mean step among them."""
    names = list(ranks)
    if len(names) <= MOST_RANKS:
        return names
    slow = sorted(names, key=lambda rank: -sum(ranks[rank].recent(STEP_TIME, RECENT)))[: MOST_RANKS // 4]
    spread = names[:: max(len(names) // (MOST_RANKS - len(slow)), 1)]
    return sorted({*slow, *spread}, key=names.index)


def rank_spec(
    ranks: dict[int | None, ProcessState], view: StepView, columns: int, chosen: Sequence[int | None] | None = None
) -> HeatSpec:
    """Ranks × steps, each the mean step time of its column over the median of the column. `chosen`: the rows."""
    left, right = view.window
    columns = max(min(columns, MOST_COLUMNS), 1)
    edges = np.linspace(left, right, columns + 1)
    chosen = chosen_ranks(ranks) if chosen is None else chosen
    values = np.full((len(chosen), columns), np.nan)
    for row, rank in enumerate(chosen):
        series = ranks[rank].series.get(STEP_TIME)
        if series is None:
            continue
        buckets = series.window(*view.query, columns)
        place = np.clip(np.searchsorted(edges, buckets.x, side="right") - 1, 0, columns - 1)
        values[row, place] = buckets.mean
    there = np.isfinite(values).any(axis=0)
    values, x = values[:, there], ((edges[:-1] + edges[1:]) / 2)[there]
    if values.size:
        with np.errstate(divide="ignore", invalid="ignore"):
            values = values / np.nanmedian(values, axis=0)
    names = tuple("rank –" if rank is None else f"rank {rank}" for rank in chosen)
    return HeatSpec(
        names=names,
        x=x,
        values=values,
        nonfinite=np.zeros(values.shape, bool),
        band=BAND,
        x_range=(left, right),
        cursor_x=view.cursor,
        empty="no step times yet",
    )


class RankMapPane(Pane):
    """The map."""

    NAME = "step time beside peers"
    HELP = "Each rank's step time over the median of all, over the steps. High: it is slower than the others."

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.heat = HeatMap()
        self.spec = HeatSpec()
        self._chosen: Sequence[int | None] = ()
        self._stale_at = 0.0

    def body(self) -> ComposeResult:
        """The map."""
        yield self.heat

    def gather(self, look: Look) -> None:
        """The window of each rank."""
        ranks, now = look.session.state.ranks, time.monotonic()
        if len(ranks) <= MOST_RANKS or now >= self._stale_at or not ranks.keys() >= set(self._chosen):
            self._chosen, self._stale_at = chosen_ranks(ranks), now + FRESH_SECONDS
        self.spec = rank_spec(ranks, look.view, self.heat.columns or 1, self._chosen)

    def present(self) -> None:
        """The map."""
        self.heat.show(self.spec)
        self.head([], "0.8 to 1.25 of the median is neutral")
