"""The step time of every rank over the steps: of a few as curves, of many as a map beside the median of all."""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np
from textual.app import ComposeResult

from ...curves.smooth import smoothed
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
from .rank_choice import MOST_RANKS, RankChoice, Ranks

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
MOST_COLUMNS = 100
FRESH_SECONDS = 1.9
"""How long a map of many ranks stands while the same steps are shown."""
COARSE = 16
"""Columns in which a rank is looked at to find whether it was slow."""


def rank_curves(
    ranks: Ranks,
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
    ranks: Ranks,
    view: StepView,
    columns: int,
    markers: Sequence[Marker] = (),
    spans: Sequence[Span] = (),
) -> HeatSpec:
    """Ranks × steps, each the mean step time of its column over the median of the column. 64 rows take 13 ms."""
    left, right = view.window
    columns = max(min(columns, MOST_COLUMNS), 1)
    edges = np.linspace(left, right, columns + 1)
    values = np.full((len(ranks), columns), np.nan)
    for row, process in enumerate(ranks.values()):
        series = process.series.get(STEP_TIME)
        if series is None:
            continue
        # The one before the range holds until the first in it.
        buckets = series.window(*view.query, columns, edges=True)
        place = np.searchsorted(edges, buckets.x, side="right") - 1
        inside = buckets.x <= right
        values[row, np.clip(place[inside], 0, columns - 1)] = buckets.mean[inside]
    there = np.isfinite(values).any(axis=0)
    values, x = values[:, there], edges[:-1][there]
    if values.size:
        with np.errstate(divide="ignore", invalid="ignore"):
            values = values / np.nanmedian(values, axis=0)
    return HeatSpec(
        names=tuple("–" if rank is None else str(rank) for rank in ranks),
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
        "these: from 0.8 to 1.25 times that is neutral, and each shade beyond is a quarter more. High: it is slower. "
        "Of more than 64 the 16 that were slowest in view, those of open findings, and others evenly between."
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
        self.against = ""
        """What a rank's step time is told over."""
        self._wanted: Hashable = None
        """What the map was made for."""
        self._stale_at = 0.0
        self._choice = RankChoice()

    def body(self) -> ComposeResult:
        """One of them is there."""
        yield self.heat
        yield self.chart

    def gather(self, look: Look) -> None:
        """The window of each rank; of many not with a key, which moves what is there, but soon after."""
        ranks, view = look.session.state.ranks, look.view
        self.curves, self.owes = None, False
        if len(ranks) <= FEW:
            # Before the first layout about as many as there will be: a run that has ended is not drawn again by itself.
            columns, glyphs = self.chart.dot_columns or max(2 * self.size.width, 2), glyphs_of(self.app)
            self.curves, self.unit = rank_curves(ranks, view, columns, glyphs, look.markers, look.spans)
            series = [known for process in ranks.values() if (known := process.series.get(STEP_TIME)) is not None]
            self.now = [reading_of(one, view.cursor, one.last_x or 0.0) for one in series]
            return
        if self.is_another_run(look):
            self._choice, self.spec, self._wanted = RankChoice(), HeatSpec(), None
        columns = self.heat.columns or 1
        if len(ranks) <= MOST_RANKS:
            self.against = "over the median of all ranks"
            self.spec = rank_spec(ranks, view, columns, look.markers, look.spans)
        else:
            self._gather_some(look, ranks, columns)

    def _gather_some(self, look: Look, ranks: Ranks, columns: int) -> None:
        """The map of some of many ranks."""
        view, choice, now = look.view, self._choice, time.monotonic()
        self.against = "over the median of these ranks"
        wanted = (view.query, view.window, columns, len(ranks))
        is_other, has_map = wanted != self._wanted, self.spec.values is not None and self.spec.values.size
        is_put_off = is_other and has_map and not look.at_leisure
        if is_other and not is_put_off:
            choice.view_changes()
        before = choice.chosen
        if look.at_leisure or not before:
            named = {finding.rank for finding in look.findings if finding.status == "open"}
            choice.look(ranks, named, now, lambda some: rank_spec(some, view, COARSE))
        is_stale = look.at_leisure and (now >= self._stale_at or choice.chosen != before)
        if is_stale or (is_other and not is_put_off):
            self._wanted, self._stale_at = wanted, now + FRESH_SECONDS
            self.spec = rank_spec({rank: ranks[rank] for rank in choice.chosen if rank in ranks}, view, columns)
            self.spec = replace(self.spec, rows=f"of {len(ranks):,} ranks")
        markers, spans = tuple(look.markers), tuple(look.spans)
        self.spec = replace(self.spec, x_range=view.window, cursor_x=view.cursor, markers=markers, spans=spans)
        self.owes = bool(is_put_off) or not choice.is_complete

    def present(self) -> None:
        """Whichever it is."""
        self.chart.display, self.heat.display = self.curves is not None, self.curves is None
        if self.curves is None:
            self.heat.show(self.spec)
            self.head([], self.against)
            return
        self.chart.show(self.curves)
        told: list[Value] = []
        for trace, read in zip(self.curves.traces, self.now, strict=True):
            told.append(dated(read, duration(read.y, 7), before=((f"{trace.mark} {trace.label}", trace.ink),)))
        self.head(told, self.unit)
