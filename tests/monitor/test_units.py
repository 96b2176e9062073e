"""Curves are told in the unit that people read them in."""

from __future__ import annotations

import pytest

from ntstop.run.units import Scale, scale_of, told


@pytest.mark.parametrize(
    ("name", "largest", "scale"),
    [
        ("step_time", 0.07, Scale(1e-3, "ms")),
        ("phase/data", 3.0, Scale(1.0, "s")),
        ("host/process_rss", 432e6, Scale(2.0**20, "MiB")),
        ("alloc0/allocated", 60e9, Scale(2.0**30, "GiB")),
        ("gpu1/utilization", 63.0, Scale(1.0, "%")),
        ("host/host_cpu", 7.5, Scale(1.0, "cores")),
        ("loss", 1.8, Scale(1.0, "")),
        ("logged/step_time", 1.8, Scale(1.0, "")),
    ],
)
def test_an_axis_is_in_the_unit_of_its_largest_value(name: str, largest: float, scale: Scale) -> None:
    assert scale_of(name, largest) == scale


def test_a_value_is_told_with_its_unit_and_nan_as_nan() -> None:
    assert told("phase/backward", 0.0422) == "42.2 ms"
    assert told("host/process_rss", 432e6) == "412 MiB"
    assert told("gpu0/power", 412.0) == "412.0 W"
    assert told("val/loss", 1.851) == "1.851"
    assert told("step_time", float("nan")) == "nan" and told("step_time", None) == "–"
