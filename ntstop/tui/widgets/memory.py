"""Memory over the steps: of each device's allocator, and of the process, its workers and the host."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from textual.app import ComposeResult

from ...run.process import ProcessState
from ...text import byte_unit, percent, size
from ..raster.ink import line
from ..raster.scale import y_scale
from ..raster.spec import ChartSpec, Level, Marker, Span, Trace
from ..reading import sample_words, sampled_at
from ..view import StepView
from ..workspace import Look
from .chart import Chart
from .pane import Pane, Value, value

LEAST = 2.0**20
"""Bytes below which the axis keeps the unit of a million."""
LEAST_RANGE = 0.1
"""Of the largest value, that the axis reaches over at least: a tenth of a percent is no leak."""
TICKS = 5
LABELS = 11
"""Cells for the names where the curves end."""
_DEVICE = {"allocated": "allocated", "reserved": "reserved", "inactive_split": "split"}
_HOST = {"host/process_rss": "process", "host/children_rss": "workers"}


def memory_curves(process: ProcessState) -> list[tuple[str, str]]:
    """(series, label), devices first; without a device what the host says of the process."""
    found = []
    devices = sorted({int(match[1]) for name in process.series if (match := re.match(r"alloc(\d+)/", name))})
    for index in devices[:1] if devices else []:
        found += [(f"alloc{index}/{field}", label) for field, label in _DEVICE.items()]
    known = [(name, label) for name, label in (*found, *_HOST.items()) if name in process.series]
    # A job without loader workers has a line of zeros that says nothing.
    return [(name, label) for name, label in known if name != "host/children_rss" or process.series[name].last_y]


def unit_of(process: ProcessState) -> tuple[str, float]:
    """The unit of the axis, and its bytes: that of the largest, from a million on."""
    largest = max((process.series[name].last_y or 0.0 for name, _ in memory_curves(process)), default=0.0)
    scale, name = byte_unit(max(largest, LEAST))
    return name, scale


def memory_spec(
    process: ProcessState, view: StepView, columns: int, markers: Sequence[Marker], spans: Sequence[Span] = ()
) -> ChartSpec:
    """Memory over the steps, in the unit of `unit_of`."""
    traces, unit = [], unit_of(process)[1]
    for place, (name, label) in enumerate(memory_curves(process)):
        buckets = process.series[name].window(*view.query, columns, edges=True)
        traces.append(
            Trace(
                buckets.x,
                buckets.mean / unit,
                buckets.lo / unit,
                buckets.hi / unit,
                nonfinite=buckets.nonfinite,
                segment=buckets.segment,
                label=label,
                ink=line(place),
            )
        )
    return ChartSpec(
        traces=tuple(traces),
        x_range=view.window,
        y_range=None if view.log else _range(traces),
        log=view.log,
        levels=_limit(process, unit),
        cursor_x=view.cursor,
        markers=tuple(markers),
        spans=tuple(spans),
        legend=False,
        margin=LABELS if len(traces) > 1 else 0,
        empty="no memory measured yet",
    )


def _range(traces: Sequence[Trace]) -> tuple[float, float] | None:
    """Where the curves hardly move, an axis that does not make much of it; None: as they are."""
    ends = [(float(np.nanmin(trace.y)), float(np.nanmax(trace.y))) for trace in traces if np.isfinite(trace.y).any()]
    if not ends:
        return None
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    least = LEAST_RANGE * high
    if high - low >= least:
        return None
    scale = y_scale(max(low - (least - high + low) / 2, 0.0), high + (least - high + low) / 2, False, TICKS)
    return scale.low, scale.high


def _limit(process: ProcessState, unit: float) -> tuple[Level, ...]:
    """The memory of the device, where the allocator comes near enough to it to be on the picture."""
    total = process.series.get("gpu0/memory_total")
    return () if total is None or not total.last_y else (Level(total.last_y / unit, label="device"),)


def fragmentation(process: ProcessState, cursor: float | None = None) -> float | None:
    """Share of what the first device has reserved that is split and cannot be given back; None: no device.

    At the step `cursor`, or the newest.
    """
    series = (process.series.get("alloc0/reserved"), process.series.get("alloc0/inactive_split"))
    reserved, split = (
        None if known is None else known.last_y if cursor is None else known.y_at(cursor) for known in series
    )
    return split / reserved if reserved and split is not None else None


class MemoryPane(Pane):
    """The curves."""

    NAME = "memory"
    HELP = (
        "Memory over the steps, once a second. With a device: what tensors hold (allocated), what the allocator "
        "has taken for them (reserved), and what of it is split. Without one: the process and its loader workers."
    )

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.chart = Chart()
        self.spec = ChartSpec()
        self.now: list[float | None] = []
        self.split: float | None = None
        self.unit = ""
        self.sample = ""
        """Which sample is told, where there is a cursor."""

    def body(self) -> ComposeResult:
        """The chart."""
        yield self.chart

    def gather(self, look: Look) -> None:
        """The window of each curve, and its value at the cursor or at the tail."""
        process, cursor = look.process, look.view.cursor
        self.spec = memory_spec(process, look.view, self.chart.dot_columns or 2, look.markers, look.spans)
        if look.session.is_log:
            self.spec = replace(self.spec, empty="there is no memory in a log: `ntstop run -- CMD` measures it")
        names = [name for name, _ in memory_curves(process)]
        self.sample = "" if cursor is None else sample_words(sampled_at(process, cursor, names), cursor)
        series = [process.series[name] for name in names]
        self.now = [known.last_y if cursor is None else known.y_at(cursor) for known in series]
        self.split, self.unit = fragmentation(process, cursor), unit_of(process)[0]

    def present(self) -> None:
        """The chart, with the values in the title."""
        self.chart.show(self.spec)
        told: list[Value] = []
        for trace, at in zip(self.spec.traces, self.now, strict=True):
            known = at is not None and np.isfinite(at)
            told.append(value(size(at) if known else "–", key=trace.label, key_ink=trace.ink))
        words = [self.sample] if self.sample else []
        words += [self.unit] + ([f"{percent(self.split)} split"] if self.split is not None else [])
        self.head(told, ", ".join(words))
