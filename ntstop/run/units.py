"""In which unit a curve is measured, and in which it is read: seconds as ms, bytes as GiB."""

from __future__ import annotations

import re
from typing import NamedTuple

from ..text import duration, number, size


class Scale(NamedTuple):
    """`value / divisor` is in `unit`."""

    divisor: float
    unit: str


PLAIN = Scale(1.0, "")
_SECONDS = re.compile(r"step_time|phase/.*|compile/seconds")
_BYTES = re.compile(
    r"host/(memory_\w+|\w+_rss|children_private|shared_\w+)|gpu\d+/memory_\w+|"
    r"alloc\d+/(allocated|reserved|active|inactive_split|largest_free)"
)
_OTHERS = (
    (re.compile(r"host/(\w+_cpu|cores)"), "cores"),
    (re.compile(r"loader/ready"), "batches"),
    (re.compile(r"gpu\d+/utilization"), "%"),
    (re.compile(r"gpu\d+/power\w*"), "W"),
    (re.compile(r"gpu\d+/temperature"), "°C"),
)
_TIMES = (Scale(3600.0, "h"), Scale(60.0, "min"), Scale(1.0, "s"), Scale(1e-3, "ms"), Scale(1e-6, "µs"))
_SIZES = (Scale(2.0**40, "TiB"), Scale(2.0**30, "GiB"), Scale(2.0**20, "MiB"), Scale(2.0**10, "KiB"))


def scale_of(name: str, largest: float) -> Scale:
    """How the axis of the series `name` is told, whose largest value is `largest`; nothing is known of a job's own."""
    if _SECONDS.fullmatch(name):
        # Two minutes are told in seconds, as three ms are not told in µs.
        return next(
            (scale for scale in _TIMES if largest >= scale.divisor * (2 if scale.divisor > 1 else 1)), _TIMES[-1]
        )
    if _BYTES.fullmatch(name):
        return next((scale for scale in _SIZES if largest >= scale.divisor), Scale(1.0, "B"))
    return next((Scale(1.0, unit) for pattern, unit in _OTHERS if pattern.fullmatch(name)), PLAIN)


def told(name: str, value: float | None) -> str:
    """A value of the series `name` with its unit, where that is known."""
    if value is None or value != value or not _has_unit(name):
        return number(value)
    if _SECONDS.fullmatch(name):
        return duration(value)
    if _BYTES.fullmatch(name):
        return size(value)
    unit = scale_of(name, 0.0).unit
    return f"{number(value)} {unit}" if unit != "%" else f"{value:.0f}%"


def _has_unit(name: str) -> bool:
    return bool(scale_of(name, 0.0).unit)
