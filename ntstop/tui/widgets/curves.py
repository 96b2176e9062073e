"""All curves of the run in a grid of small charts, or one of them large with others laid over it."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
from textual.app import ComposeResult

from ...curves.alignment import AxisName
from ...run.units import PLAIN, Scale, scale_of, told
from ...text import cell_width, count, safe
from .. import bindings
from ..choice import CurveChoice
from ..colours import ColourBook
from ..raster.ink import Ink, line
from ..raster.labels import mark_of
from ..raster.spec import Level, Trace
from ..styles.paint import glyphs_of
from ..traces import Frame, Lane, axes_of, chart_of, differences, frame_of, reading_in, scaled, trace_of
from ..workspace import Look
from .grid import Cell, ChartGrid, Geometry
from .pane import Name, Pane, Value, dated

AT_A_TIME = 12
"""Of so many charts one is drawn at each turn, so that a screen full of them is no burst."""
MANY, LEARN_EVERY = 500, 8
"""From so many curves on new ones are looked for at each eighth look only: some jobs log a name for every step."""
MOST_MARGIN = 28
"""Cells that labels at the end of curves may take."""


class CurvesPane(Pane):
    """The grid, what is chosen in it, and how it is looked at."""

    NAME = "curves"
    OF_ALL_RUNS = True
    HELP = (
        "Every curve of the run on one step axis: a moving average over the band from the lowest to the highest "
        "value, or diamonds where there are few points. In each title: the newest value, or that at the cursor, and @ "
        "its step where that is an older one; dim: older than usual. Runs that were opened together lie over each "
        "other, each with its colour and sign."
    )
    BINDINGS: ClassVar = bindings.CURVES_PANE

    def __init__(self, book: ColourBook, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.grid = ChartGrid()
        self.choice = CurveChoice()
        self.axis: AxisName = "step"
        self.is_difference = False
        self.shown: list[str] = []
        self.runs: Sequence[tuple[str, int]] = ()
        """Name and place in the book of each run."""
        self.book = book
        self._cells: list[Cell] = []
        self._shape = Geometry(1, 1)
        self._keys: dict[int, Hashable] = {}
        self._known: tuple[Hashable, ...] | None = None
        self._age = 0
        self.frame: Frame | None = None
        """The axis as it was drawn last."""
        self._turn = 0
        self._top = 0
        self._margin = 0
        self._axis_words: list[str] = []
        self._far = ""
        self._seen: tuple[int, int] | None = None
        """The first and the last of the curves that have room, from 1; None: all have."""

    def body(self) -> ComposeResult:
        """The grid."""
        yield self.grid

    def gather(self, look: Look) -> None:
        """The charts whose look has changed, and of the others those whose turn it is."""
        self._learn_names(look)
        frame = self.frame = frame_of(look, self.axis)
        names = self._page()
        self._describe(frame, look)
        fresh = dict(enumerate(self._cells))
        due = self._due(len(names))
        for place, name in enumerate(names):
            key = self._key(name, frame, look)
            if place in due or self._keys.get(place) != key or place not in fresh:
                self._keys[place] = key
                fresh[place] = self._cell(name, place, frame, look)
        self._cells = [fresh[place] for place in range(len(names))]

    def present(self) -> None:
        """The charts, and in the title which runs they are of and how they are looked at."""
        words = safe(self.choice.filter)
        self.grid.lacks = f"no curve matches /{words}; esc clears the filter" if words else ""
        self.grid.show(self._cells, self._shape)
        glyphs = glyphs_of(self.app)
        values: list[Value] = []
        if len(self.runs) > 1:
            values = [((mark_of(place, glyphs), line(place)), (Name(name), Ink.TEXT)) for name, place in self.runs]
        self.head(values, ", ".join(self._axis_words), self._far)

    def next_axis(self, look: Look) -> str | None:
        """The next axis that a run has measured; its name, or None where there is only the step."""
        axes = axes_of(look)
        if len(axes) < 2:
            return None
        place = axes.index(self.axis) if self.axis in axes else 0
        self.axis = axes[(place + 1) % len(axes)]
        return self.axis

    def turn(self, pages: int) -> None:
        """So many screens of charts further: the chosen one keeps its place on the screen."""
        self.choice.move(pages * max(len(self._shape.boxes), 1), self.shown)
        self._top += pages * self._shape.rows

    def set_filter(self, words: str) -> None:
        """Show only curves whose name has all of these words."""
        self.choice.filter = words
        self._known = None

    def _learn_names(self, look: Look) -> None:
        """The names there are, where some have come since or the choice has changed."""
        choice = self.choice
        sizes = tuple((id(shown), len(process.series)) for shown, process in look.runs)
        known = sizes, choice.filter, choice.order, choice.is_reversed, tuple(choice.pinned)
        self._age += 1
        is_same = self._known is not None and known[1:] == self._known[1:]
        is_new = known != self._known and (self._age >= LEARN_EVERY or len(choice.names) < MANY)
        is_moved = choice.order == "newest" and self._age >= LEARN_EVERY
        if is_same and not is_new and not is_moved:
            return
        self._known, self._age = known, 0
        choice.names = list(dict.fromkeys(
            name for _, process in look.runs for name, series in process.series.items() if series.last_x is not None
        ))  # fmt: skip
        series = look.process.series

        def newest(name: str) -> float:
            return (series[name].last_x or 0.0) if name in series else -math.inf

        self.shown = choice.shown(newest)
        if choice.chosen not in self.shown:
            choice.chosen = self.shown[0] if self.shown else None
        self.runs = [(shown.name, self.book.of(shown.name)) for shown, _ in look.runs]

    def _page(self) -> list[str]:
        """The curves that are on the screen: the large one, or the page of the grid around the chosen one."""
        if self.choice.is_large:
            self._shape, self._margin = self.grid.room(1), self._label_width()
            return [self.choice.chosen] if self.choice.chosen else []
        self._margin = 0
        shape = self._shape = self.grid.room(len(self.shown))
        chosen = self.shown.index(self.choice.chosen) if self.choice.chosen in self.shown else 0
        row, rows = chosen // shape.columns, math.ceil(len(self.shown) / shape.columns)
        self._top = min(max(self._top, row - shape.rows + 1, 0), row, max(rows - shape.rows, 0))
        first = self._top * shape.columns
        seen = self.shown[first : first + len(shape.boxes)]
        self._seen = (first + 1, first + len(seen)) if len(seen) < len(self.shown) else None
        return seen

    def _due(self, charts: int) -> set[int]:
        """Places of the charts whose turn it is to show what has come since."""
        if not charts:
            return set()
        number = math.ceil(charts / AT_A_TIME)
        due = {(self._turn + offset) % charts for offset in range(number)}
        self._turn = (self._turn + number) % charts
        return due

    def _key(self, name: str, frame: Frame, look: Look) -> Hashable:
        choice = self.choice
        overlaid = tuple(choice.overlaid) if choice.is_large else name in choice.overlaid
        return (
            name, frame.axis, frame.x_range, frame.spans, look.view.key, self.is_difference, self._shape, self._margin,
            overlaid,
            name in choice.pinned, name == choice.chosen, tuple(id(lane.shown) for lane in frame.lanes),
        )  # fmt: skip

    def _cell(self, name: str, place: int, frame: Frame, look: Look) -> Cell:
        columns = self.grid.dot_columns(place, self._shape, self._margin) or 2
        names = self.choice.together() if self.choice.is_large else [name]
        traces = self._traces(names, frame, columns, look.view.smoothing)
        scale = _common_scale(names, traces)
        spec = chart_of(frame, scaled(traces, scale), log=look.view.log and not self.is_difference)
        if self._margin or self.is_difference:
            levels = (Level(0.0),) if self.is_difference else ()
            spec = replace(spec, margin=self._margin, levels=levels)
        marks = ["*"] if name in self.choice.pinned else []
        marks += ["+"] if name in self.choice.overlaid else []
        marks += [scale.unit] if scale.unit else []
        return Cell(
            name, spec, self._values(name, names, traces, frame, look), " ".join(marks), name == self.choice.chosen
        )

    def _traces(self, names: Sequence[str], frame: Frame, columns: int, smoothing: str) -> list[Trace]:
        """The curves of one chart: those of all runs, less that of the first where differences are asked for."""
        found: list[Trace] = []
        for name in names:
            parts = [
                part
                for lane in frame.lanes
                for part in trace_of(
                    frame, lane, name, columns, smoothing, self._ink(name, names, lane, frame),
                    band=len(frame.lanes) == 1 and len(names) == 1,
                )
            ]  # fmt: skip
            found += differences(parts) if self.is_difference else parts
            self._sign(found, name, names, frame)
        return found

    def _lanes_of(self, name: str, frame: Frame) -> list[tuple[Lane, Lane | None]]:
        """The run of each line of this curve, and that which it is drawn less, where differences are asked for."""
        lanes = [lane for lane in frame.lanes if name in lane.process.series and lane.alignment is not None]
        return [(lane, lanes[0]) for lane in lanes[1:]] if self.is_difference else [(lane, None) for lane in lanes]

    def _ink(self, name: str, names: Sequence[str], lane: Lane, frame: Frame) -> Ink:
        if len(names) > 1:
            return line(self.book.of(name))
        return line(self.book.of(lane.shown.name)) if len(frame.lanes) > 1 else Ink.LINE_0

    def _sign(self, traces: list[Trace], name: str, names: Sequence[str], frame: Frame) -> None:
        """Give lines that are several in a chart their signs and, where there is room, their labels."""
        glyphs = glyphs_of(self.app)
        several = len(names) > 1 or len(frame.lanes) > 1
        for place, trace in enumerate(traces):
            if trace.kind != "line" or trace.mark or not several:
                continue
            of_run = len(frame.lanes) > 1
            sign = mark_of(self.book.of(trace.label if of_run else name), glyphs)
            label = trace.label if len(names) == 1 else f"{trace.label} {name}" if of_run else name
            traces[place] = replace(trace, mark=sign, label=label)

    def _values(
        self, name: str, names: Sequence[str], traces: Sequence[Trace], frame: Frame, look: Look
    ) -> list[Value]:
        """The newest value of each curve, or that at the cursor, as it was measured; or by how much they differ."""
        lines = [trace for trace in traces if trace.kind == "line"]
        if len(frame.lanes) > 1:
            of_lines = [(one, *pair) for one in names for pair in self._lanes_of(one, frame)]
            found = [
                (trace, one, reading_in(frame, lane, one, base))
                for trace, (one, lane, base) in zip(lines, of_lines, strict=True)
            ]
        else:
            there = [name for name in names if name in look.process.series]
            known = zip(lines, there, strict=False)
            found = [(trace, name, look.reading(name)) for trace, name in known]
        return [
            dated(read, told(name, read.y).rjust(6), before=((trace.mark, trace.ink),) if trace.mark else ())
            for trace, name, read in found
        ]

    def _label_width(self) -> int:
        """Room for the longest label of the large chart."""
        several_runs, names = len(self.runs) > 1, self.choice.together()
        if not several_runs and len(names) < 2:
            return 0
        runs = max((cell_width(name) for name, _ in self.runs), default=0) if several_runs else 0
        curves = max(map(cell_width, names), default=0) if len(names) > 1 else 0
        return min(runs + curves + 4, MOST_MARGIN, self.grid.size.width // 4)

    def _describe(self, frame: Frame, look: Look) -> None:
        """What the keys have set, in words."""
        view, choice = look.view, self.choice
        total = len(choice.names)
        words = [f"{len(self.shown)} of {count(total)}" if len(self.shown) < total else count(total)]
        if choice.is_large and choice.chosen in self.shown:
            words[0] = f"{self.shown.index(choice.chosen) + 1} of {count(len(self.shown))}"
        elif self._seen:
            words[0] = f"{self._seen[0]}-{self._seen[1]} of {count(len(self.shown))}"
        if choice.filter:
            words.append(f"/{choice.filter}")
        if choice.order != "kind" or choice.is_reversed:
            words.append(f"by {choice.order}" + (", reversed" if choice.is_reversed else ""))
        if frame.axis != "step":
            words.append(f"over {frame.axis}" + (f", {frame.unit}" if frame.unit else ""))
        words += [] if view.cursor is None else [f"step {count(view.cursor)}"]
        words += ["log"] if view.log else []
        if view.smoothing != "light":
            words.append("raw" if view.smoothing == "off" else "strongly smoothed")
        if self.is_difference and self.runs:
            words.append(f"less {self.runs[0][0]}")
        lacking = [lane.shown.name for lane in frame.lanes if lane.alignment is None]
        if frame.axis != self.axis:
            lacking = [frame.lanes[0].shown.name or "this run"]
        if lacking:
            words.append(f"no {self.axis} measured by {', '.join(lacking)}")
        self._axis_words = words + look.whose
        self._far = self.how_far(view)


def _common_scale(names: Sequence[str], traces: Sequence[Trace]) -> Scale:
    """The unit of a chart: that of its curves where they all have one."""
    tops = [np.abs(trace.y[np.isfinite(trace.y)]).max(initial=0.0) for trace in traces]
    scales = {scale_of(name, float(max(tops, default=0.0))) for name in names}
    return scales.pop() if len(scales) == 1 else PLAIN
