"""What the driver does not say is n/a on the screen, never 0; what is lost or slowed down is said."""

from __future__ import annotations

from ntstop.run.state import RunState
from ntstop.tui.view import StepView
from ntstop.tui.widgets.host import usage_rows
from ntstop_probe.wire import Allocator, Device

GIB = 2**30


def lines(*records: Device | Allocator) -> dict[str, str]:
    state = RunState()
    for record in records:
        state.apply(1, record)
    process = state.primary
    assert process is not None
    return {f"{place}:{row.label.strip()}": row.text for place, row in enumerate(usage_rows(process, StepView()))}


def test_a_part_of_a_divided_gpu_has_no_use_but_memory() -> None:
    found = lines(Device(1.0, 0, "MIG-1", "H100 MIG", memory_used=10 * GIB, memory_total=40 * GIB))
    assert found == {"0:gpu 0": "use n/a", "1:memory": "10.0 of 40.0 GiB"}


def test_what_is_not_said_any_more_is_not_shown_as_it_was() -> None:
    found = lines(Device(1.0, 0, "GPU-1", "H100", utilization=90.0), Device(2.0, 0, "GPU-1", "H100", power=300.0))
    assert found["0:gpu 0"] == "use n/a · 300 W"


def test_a_gpu_that_is_lost_and_one_that_is_slowed_down_are_said_to_be() -> None:
    found = lines(
        Device(1.0, 0, "GPU-1", "H100", utilization=90.0),
        Device(2.0, 0, "GPU-1", "H100", lost=True),
        Device(2.0, 1, "GPU-2", "H100", utilization=0.0, throttle=["power cap\x1b[31m"], ecc_uncorrected=2),
    )
    assert found["0:gpu 0"] == "lost: the driver cannot reach it"
    assert found["1:gpu 1"] == "0%"
    assert found["2:"].startswith("slowed: power cap")
    assert "2 uncorrected ECC errors" in found["2:"]
    assert "\x1b" not in found["2:"]


def test_the_largest_free_block_is_shown_where_it_is_known() -> None:
    known = Allocator(1.0, 0, allocated=GIB, reserved=2 * GIB, largest_free=GIB // 4)
    assert "256 MiB largest free" in lines(known)["1:"]
