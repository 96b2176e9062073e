"""The step time of every rank over the steps: of a few as curves, of many as a map beside the median of all."""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np
from textual.app import ComposeResult

from ...curves.smooth import smoothed
from ...run.process import ProcessState
from ...text import duration
from ..raster.heat import HeatSpec
from ..raster.ink import line
from ..raster.labels import mark_of
from ..raster.spec import ChartSpec, Glyphs, Marker, Span, Trace
from ..reading import Reading, reading_of
from ..styles.paint import glyphs_of
from ..view import StepView
from ..workspace import Look
from .chart import Chart
from .heatmap import HeatMap
from .pane import Pane, Value, dated
from .phases import STEP_TIME

BAND = (0.8, 1.25)
"""Step time over the median of the ranks that is drawn neutral: jitter of a healthy run."""
LEVEL = 1.25
"""From one shade of slower or faster to the next: a rank that takes twice as long is no jitter, nor is one of 1.4."""
FEW = 6
"""Ranks whose curves are told apart on one axis."""
MOST = 2.0
"""Times the usual step time of the slowest, where the axis ends."""
LABELS = 9
"""Cells for the names of the curves."""
MOST_RANKS = 64
"""Rows that are looked at; of more ranks, evenly spread ones and the slowest."""
MOST_COLUMNS = 100
RECENT = 32
"""Newest steps by which the slowest ranks are found."""
FRESH_SECONDS = 0.8
"""How long a map of many ranks stands while the same steps are shown."""
CHOSEN_SECONDS = 5.0
"""How long it is of the same ranks: rows that change places are hard to read, and means of a thousand take 10 ms."""


def chosen_ranks(ranks: dict[int | None, ProcessState]) -> list[int | None]:
    """Ranks for the map: all, or evenly spread ones with those of the longest mean step among them."""
    names = list(ranks)
    if len(names) <= MOST_RANKS:
        return names
    slow = sorted(names, key=lambda rank: -sum(ranks[rank].recent(STEP_TIME, RECENT)))[: MOST_RANKS // 4]
    spread = names[:: max(len(names) // (MOST_RANKS - len(slow)), 1)]
    return sorted({*slow, *spread}, key=names.index)


def rank_curves(
    ranks: dict[int | None, ProcessState],
    view: StepView,
    columns: int,
    glyphs: Glyphs = Glyphs.BRAILLE,
    markers: Sequence[Marker] = (),
    spans: Sequence[Span] = (),
) -> tuple[ChartSpec, str]:
    """The mean step time of each rank over the steps, smoothed, and its unit: "ms", or "s" from a second on."""
    drawn = []
    for place, (rank, process) in enumerate(ranks.items()):
        if (series := process.series.get(STEP_TIME)) is not None:
            drawn.append((place, rank, series.window(*view.query, columns, edges=True)))
    means = [known for *_, found in drawn if len(known := found.mean[np.isfinite(found.mean)])]
    medians = [float(np.median(part)) for part in means]
    quickest, usual = min(medians, default=0.0), max(medians, default=0.0)
    longest = max((float(part.max()) for part in means), default=0.0)
    # An evaluation within a step is no step time: what is far above the usual is cut off at the top.
    top = max(min(longest, MOST * usual), BAND[1] * usual)
    unit, scale = ("s", 1.0) if usual >= 1.0 else ("ms", 1e3)
    traces = [
        Trace(
            found.x,
            smoothed(found, view.smoothing, view.window[1] - view.window[0]) * scale,
            segment=found.segment,
            nonfinite=np.zeros(len(found), np.int64),
            label=_name(rank),
            ink=line(place),
            mark=mark_of(place, glyphs),
        )
        for place, rank, found in drawn
    ]
    spec = ChartSpec(
        traces=tuple(traces),
        x_range=view.window,
        y_range=None if view.log or not usual else (BAND[0] * quickest * scale, top * scale),
        log=view.log,
        cursor_x=view.cursor,
        markers=tuple(markers),
        spans=tuple(spans),
        legend=False,
        margin=LABELS,
        empty="no step times yet",
    )
    return spec, unit


def _name(rank: int | None) -> str:
    return "rank –" if rank is None else f"rank {rank}"


def rank_spec(
    ranks: dict[int | None, ProcessState],
    view: StepView,
    columns: int,
    markers: Sequence[Marker] = (),
    spans: Sequence[Span] = (),
) -> HeatSpec:
    """Ranks × steps, each the mean step time of its column over the median of the column. 64 rows take 13 ms."""
    left, right = view.window
    columns = max(min(columns, MOST_COLUMNS), 1)
    edges = np.linspace(left, right, columns + 1)
    chosen = chosen_ranks(ranks)
    values = np.full((len(chosen), columns), np.nan)
    for row, rank in enumerate(chosen):
        series = ranks[rank].series.get(STEP_TIME)
        if series is None:
            continue
        buckets = series.window(*view.query, columns)
        place = np.clip(np.searchsorted(edges, buckets.x, side="right") - 1, 0, columns - 1)
        values[row, place] = buckets.mean
    there = np.isfinite(values).any(axis=0)
    values, x = values[:, there], edges[:-1][there]
    if values.size:
        with np.errstate(divide="ignore", invalid="ignore"):
            values = values / np.nanmedian(values, axis=0)
    return HeatSpec(
        names=tuple("–" if rank is None else str(rank) for rank in chosen),
        x=x,
        values=values,
        nonfinite=np.zeros(values.shape, bool),
        band=BAND,
        level=LEVEL,
        rows="ranks",
        x_range=(left, right),
        cursor_x=view.cursor,
        markers=tuple(markers),
        spans=tuple(spans),
        empty="no step times yet",
    )


class RankMapPane(Pane):
    """The curves, or the map."""

    NAME = "step time by rank"
    HELP = (
        "Each rank's step time over the steps. Of a few ranks the curves; of many a row each, beside the median of "
        "all: from 0.8 to 1.25 times that is neutral, and each shade beyond is a quarter more. High: it is slower."
    )

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.heat = HeatMap()
        self.chart = Chart()
        self.chart.display = False
        self.spec = HeatSpec()
        self.curves: ChartSpec | None = None
        self.unit = ""
        self.now: list[Reading] = []
        self._wanted: Hashable = None
        """What the map was made for."""
        self._stale_at = 0.0
        self._chosen: list[int | None] = []
        self._of: list[int | None] = []
        """Ranks that they were chosen from."""
        self._choose_at = 0.0

    def body(self) -> ComposeResult:
        """One of them is there."""
        yield self.heat
        yield self.chart

    def gather(self, look: Look) -> None:
        """The window of each rank; of many not with a key, which moves what is there, but soon after."""
        ranks, now, view = look.session.state.ranks, time.monotonic(), look.view
        self.curves, self.owes = None, False
        if len(ranks) <= FEW:
            # Before the first layout about as many as there will be: a run that has ended is not drawn again by itself.
            columns, glyphs = self.chart.dot_columns or max(2 * self.size.width, 2), glyphs_of(self.app)
            self.curves, self.unit = rank_curves(ranks, view, columns, glyphs, look.markers, look.spans)
            series = [known for process in ranks.values() if (known := process.series.get(STEP_TIME)) is not None]
            self.now = [reading_of(one, view.cursor, one.last_x or 0.0) for one in series]
            return
        columns = self.heat.columns or 1
        wanted = (view.query, view.window, columns, len(ranks))
        is_crowd, is_other = len(ranks) > MOST_RANKS, wanted != self._wanted
        has_map = self.spec.values is not None and self.spec.values.size
        self.owes = bool(is_crowd and is_other and has_map and not look.at_leisure)
        is_stale = look.at_leisure and now >= self._stale_at
        if not is_crowd or is_stale or (is_other and not self.owes):
            self._wanted, self._stale_at = wanted, now + FRESH_SECONDS
            self.spec = rank_spec(self._choose(ranks, now), view, columns, look.markers, look.spans)
        else:
            markers, spans = tuple(look.markers), tuple(look.spans)
            self.spec = replace(self.spec, x_range=view.window, cursor_x=view.cursor, markers=markers, spans=spans)

    def _choose(self, ranks: dict[int | None, ProcessState], now: float) -> dict[int | None, ProcessState]:
        """Those that have a row."""
        if self._of != (all_ranks := list(ranks)) or now >= self._choose_at:
            self._of, self._chosen, self._choose_at = all_ranks, chosen_ranks(ranks), now + CHOSEN_SECONDS
        return {rank: ranks[rank] for rank in self._chosen}

    def present(self) -> None:
        """Whichever it is."""
        self.chart.display, self.heat.display = self.curves is not None, self.curves is None
        if self.curves is None:
            self.heat.show(self.spec)
            self.head([], "over the median of all ranks")
            return
        self.chart.show(self.curves)
        told: list[Value] = []
        for trace, read in zip(self.curves.traces, self.now, strict=True):
            told.append(dated(read, duration(read.y, 7), before=((f"{trace.mark} {trace.label}", trace.ink),)))
        self.head(told, self.unit)
