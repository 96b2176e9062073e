"""What the run uses: accelerators and their memory where there are any, else the processor and memory of the host."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from textual.app import ComposeResult

from ntstop_probe.wire import Device

from ...run.process import ProcessState
from ...sparkline import spark
from ...text import byte_unit, clip, fit, size
from ..raster.ink import Ink
from ..raster.picture import Picture
from ..reading import sample_words, sampled_at
from ..view import StepView
from ..workspace import Look
from .chart import PictureWidget
from .pane import Pane, is_ascii, plain_if

LABEL, SPARK = 9, 10
MOST_ROWS = 12
FLAT = 0.05
"""What moves by less than this share of itself is drawn flat."""

FULL, NEARLY_ALL = 0.1, 0.9
"""Shares of the shared memory from which it has a line without loader workers too, and from which it is set off."""

HOST = ("host/process_cpu", "gpu0/utilization", "alloc0/allocated")
"""Of each thing that is measured once a second a curve that tells when."""

At = Callable[[str], float | None]
"""The value of a series at the cursor, or its newest."""


@dataclass(frozen=True, eq=False)
class Row:
    """One line: what, how it went over the steps in view, how it is.

    `top` is the full scale of the sparkline, from 0; None: only its shape matters.
    """

    label: str
    text: str
    recent: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    top: float | None = None
    ink: Ink = Ink.LINE_0


def usage_rows(process: ProcessState, view: StepView, *, in_detail: bool = False) -> list[Row]:
    """A line for each thing that was measured; what was not has no line, and no accelerator at all is said.

    `in_detail`: what the children share, too.
    """

    def at(name: str) -> float | None:
        series = process.series.get(name)
        if series is None:
            return None
        return series.last_y if view.cursor is None else series.y_at(view.cursor)

    def recent(name: str) -> NDArray[np.float64]:
        series = process.series.get(name)
        return np.empty(0) if series is None else series.window(*view.query, SPARK).mean

    rows = []
    for index in sorted(_indexes(process, "gpu") | set(process.accelerators)):
        rows += _device_rows(index, at, recent, process.accelerators.get(index) if view.cursor is None else None)
    for index in sorted(_indexes(process, "alloc")):
        rows += _allocator_rows(index, at, recent)
    rows += _host_rows(at, recent, in_detail)
    if not rows:
        return [Row("", "nothing measured yet", ink=Ink.DIM)]
    if not process.devices:
        rows.append(Row("gpu", "not measured", ink=Ink.DIM))
    return rows


def _indexes(process: ProcessState, prefix: str) -> set[int]:
    found = (re.match(rf"{prefix}(\d+)/", name) for name in process.series)
    return {int(match[1]) for match in found if match}


Recent = Callable[[str], NDArray[np.float64]]


def _device_rows(index: int, at: At, recent: Recent, now: Device | None) -> list[Row]:
    """`now`: what the driver has said last, when that is what is looked at."""
    prefix = f"gpu{index}/"
    if now is not None and now.lost:
        return [Row(f"gpu {index}", "lost: the driver cannot reach it", ink=Ink.WARNING)]
    at = at if now is None else lambda name: getattr(now, name.removeprefix(prefix))
    busy, used, total = at(prefix + "utilization"), at(prefix + "memory_used"), at(prefix + "memory_total")
    power, heat, errors = at(prefix + "power"), at(prefix + "temperature"), at(prefix + "ecc_uncorrected")
    slowed = clip(", ".join(now.throttle), 60) if now is not None else ""
    first = [
        f"{busy:.0f}%" if busy is not None else "use n/a",
        f"{power:.0f} W" if power is not None else "",
        f"{heat:.0f} °C" if heat is not None else "",
    ]
    rows = [Row(f"gpu {index}", _joined(first), recent(prefix + "utilization"), 100.0, Ink.LINE_3)]
    if used is not None:
        rows.append(Row("  memory", _of(used, total), recent(prefix + "memory_used"), total, Ink.LINE_3))
    if slowed or errors:
        told = [f"slowed: {slowed}" if slowed else "", f"{errors:.0f} uncorrected ECC errors" if errors else ""]
        rows.append(Row("", _joined(told), ink=Ink.WARNING))
    return rows


def _allocator_rows(index: int, at: At, recent: Recent) -> list[Row]:
    prefix = f"alloc{index}/"
    allocated, reserved = at(prefix + "allocated"), at(prefix + "reserved")
    split, retries, ooms = at(prefix + "inactive_split"), at(prefix + "retries"), at(prefix + "ooms")
    largest = at(prefix + "largest_free")
    if allocated is None:
        return []
    rows = [Row(f"alloc {index}", _of(allocated, reserved), recent(prefix + "allocated"), reserved)]
    more = [
        f"{size(split)} split" if split is not None else "",
        f"{size(largest)} largest free" if largest is not None else "",
        f"{retries:.0f} retries" if retries is not None else "",
        f"{ooms:.0f} OOM" if ooms else "",
    ]
    rows.append(Row("", _joined(more), ink=Ink.WARNING if retries or ooms else Ink.TEXT))
    return rows


def _host_rows(at: At, recent: Recent, in_detail: bool) -> list[Row]:
    cpu, cores, rss = at("host/process_cpu"), at("host/cores"), at("host/process_rss")
    busy, used, total = at("host/host_cpu"), at("host/memory_used"), at("host/memory_total")
    children, children_cpu, children_rss = (at(f"host/{name}") for name in ("children", "children_cpu", "children_rss"))
    rows = []
    if cpu is not None:
        of = f" of {cores:.0f} cores" if cores is not None else " cores"
        rows.append(Row("cpu", f"{cpu:.1f}{of}", recent("host/process_cpu"), cores))
    if rss is not None:
        rows.append(Row("rss", size(rss), recent("host/process_rss")))
    if children:
        parts = [f"{children:.0f}", f"{children_cpu:.1f} cores" if children_cpu is not None else ""]
        text = _joined([*parts, size(children_rss) if children_rss is not None else ""])
        rows.append(Row("children", text, recent("host/children_cpu"), cores))
    if in_detail:
        rows += _shared_rows(at, recent, children)
    if busy is not None:
        rows.append(Row("host cpu", f"{busy:.1f} cores busy", recent("host/host_cpu"), ink=Ink.LINE_5))
    if used is not None:
        rows.append(Row("host mem", _of(used, total), recent("host/memory_used"), total, Ink.LINE_5))
    return rows


def _shared_rows(at: At, recent: Recent, children: float | None) -> list[Row]:
    """What a fork shares: what the children have of their own, and the memory through which they hand over."""
    rows, private = [], at("host/children_private")
    if children and private is not None:
        rows.append(Row("  own", size(private), recent("host/children_private")))
    shared, room = at("host/shared_used"), at("host/shared_total")
    if shared is not None and room and (children or shared >= FULL * room):
        ink = Ink.WARNING if shared >= NEARLY_ALL * room else Ink.LINE_5
        rows.append(Row("/dev/shm", _of(shared, room), recent("host/shared_used"), room, ink))
    return rows


def _of(used: float, total: float | None) -> str:
    return size(used) if total is None else f"{used / byte_unit(total)[0]:.1f} of {size(total)}"


def _joined(parts: Sequence[str]) -> str:
    return " · ".join(filter(None, parts))


def draw_usage(rows: Sequence[Row], width: int, height: int, ascii_only: bool = False) -> Picture:
    """Label, sparkline, words; the lines that do not fit are left out from the end."""
    picture = Picture.blank(width, height)
    for place, row in enumerate(rows[:height]):
        picture.write(place, 1, fit(row.label, LABEL), Ink.DIM)
        if len(row.recent):
            picture.write(place, LABEL + 2, _spark(row, ascii_only), row.ink)
            picture.write(place, LABEL + SPARK + 4, clip(row.text, width - LABEL - SPARK - 4), Ink.TEXT)
        else:
            picture.write(place, LABEL + 2, row.text, row.ink)
    return plain_if(ascii_only, picture)


def _spark(row: Row, ascii_only: bool) -> str:
    if row.top is not None:
        return spark(row.recent, SPARK, ascii_only, low=0.0, high=row.top)
    low, high = float(np.nanmin(row.recent)), float(np.nanmax(row.recent))
    if high - low < FLAT * high:
        low = high
    return spark(row.recent, SPARK, ascii_only, low=low, high=high)


class Usage(PictureWidget):
    """The lines on the screen."""

    rows: Sequence[Row] = ()

    def draw(self, width: int, height: int) -> Picture:
        """The lines as they are."""
        return draw_usage(self.rows, width, height, is_ascii(self.app))


class HostPane(Pane):
    """Accelerators and host."""

    NAME = "resources"
    HELP = (
        "Measured once a second: accelerators and their allocator, this process, its children (own: what they share "
        "with nobody), the shared memory through which loader workers hand over, the host. Values are those at the "
        "cursor, or of the last sample before it: the title tells its step."
    )

    def __init__(self, *, id: str | None = None, in_detail: bool = False) -> None:
        super().__init__(id=id)
        self.in_detail = in_detail
        self.usage = Usage()
        self.rows: list[Row] = []
        self.note = ""

    def body(self) -> ComposeResult:
        """The lines."""
        yield self.usage

    def gather(self, look: Look) -> None:
        """A line for each thing measured."""
        process = look.process
        self.rows = usage_rows(process, look.view, in_detail=self.in_detail)
        names = sorted(set(process.devices.values()))
        self.note = ", ".join(f"{list(process.devices.values()).count(name)}× {name}" for name in names)
        if look.view.cursor is not None:
            self.note = sample_words(sampled_at(process, look.view.cursor, HOST), look.view.cursor)

    def present(self) -> None:
        """The lines, and the devices' names in the title."""
        self.head([], self.note)
        # As high as it needs: the panes above get the rest.
        self.styles.height = min(len(self.rows), MOST_ROWS) + 1
        self.usage.rows = self.rows
        self.usage.redraw()
