"""The memory over the steps: named curves, an axis that makes nothing of little, all at the step of the cursor."""

from __future__ import annotations

import pytest

from ntstop.run.state import RunState
from ntstop.tui.raster.ink import Ink
from ntstop.tui.raster.spec import Span
from ntstop.tui.view import StepView
from ntstop.tui.widgets.host import usage_rows
from ntstop.tui.widgets.ledger import ledger
from ntstop.tui.widgets.memory import fragmentation, memory_spec
from ntstop_probe.wire import Allocator, Host
from tests.monitor.records import Script, descent, hello
from tests.tui import feed
from tests.tui.opened import opened

GIB = 2**30


def state_of(*sizes: int) -> RunState:
    """A hundred steps with each of these sizes of the process."""
    run = Script().add(hello())
    for size in sizes:
        run.steps(descent(100)).add(Host(run.t, process_rss=size))
    state = RunState()
    for record in run.records:
        state.apply(1, record)
    return state


def test_a_tenth_of_a_percent_does_not_fill_the_axis_and_a_real_growth_does() -> None:
    still = state_of(GIB, GIB + GIB // 1000, GIB + GIB // 500).primary
    grown = state_of(GIB, 2 * GIB, 3 * GIB).primary
    assert still is not None and grown is not None
    view = StepView(0.0, 299.0)
    low, high = memory_spec(still, view, 100, ()).y_range or (0.0, 0.0)
    assert low < 1.0 < high and high - low >= 0.1
    assert memory_spec(grown, view, 100, ()).y_range is None


def test_the_ledger_and_the_use_are_those_of_the_step_under_the_cursor() -> None:
    process = state_of(GIB, 2 * GIB, 3 * GIB).primary
    assert process is not None
    assert ledger(process)[1] == 3 * GIB and ledger(process, 150.0)[1] == GIB
    view = StepView(0.0, 299.0, cursor=250.0)
    assert next(row.text for row in usage_rows(process, view) if row.label == "rss") == "2.00 GiB"


def test_fragmentation_at_the_cursor() -> None:
    run = Script().add(hello())
    for split in (1, 5):
        run.steps(descent(100)).add(
            Allocator(run.t, 0, allocated=4 * GIB, reserved=10 * GIB, inactive_split=split * GIB)
        )
    state = RunState()
    for record in run.records:
        state.apply(1, record)
    assert state.primary is not None
    assert fragmentation(state.primary) == pytest.approx(0.5)
    assert fragmentation(state.primary, 120.0) == pytest.approx(0.1)


def test_what_workers_share_is_told_where_there_are_any_or_where_it_is_full() -> None:
    def labels(host: Host, *, in_detail: bool) -> dict[str, tuple[str, Ink]]:
        state = RunState()
        for record in Script().add(hello()).steps(descent(20)).add(host).records:
            state.apply(1, record)
        assert state.primary is not None
        rows = usage_rows(state.primary, StepView(0.0, 19.0), in_detail=in_detail)
        return {row.label.strip(): (row.text, row.ink) for row in rows}

    workers = Host(
        100.0, children=2, children_rss=GIB, children_private=GIB // 4, shared_used=GIB, shared_total=2 * GIB
    )
    assert "/dev/shm" not in labels(workers, in_detail=False)
    told = labels(workers, in_detail=True)
    assert told["own"][0] == "256 MiB" and told["/dev/shm"] == ("1.0 of 2.00 GiB", Ink.LINE_5)
    alone = Host(100.0, children=0, shared_used=GIB // 100, shared_total=2 * GIB)
    assert "/dev/shm" not in labels(alone, in_detail=True)
    full = Host(100.0, children=0, shared_used=2 * GIB - 1, shared_total=2 * GIB)
    assert labels(full, in_detail=True)["/dev/shm"][1] is Ink.WARNING


def test_the_span_of_a_finding_is_drawn_behind_the_curves() -> None:
    process, span = state_of(GIB).primary, Span(20.0, 60.0)
    assert process is not None and memory_spec(process, StepView(0.0, 99.0), 100, (), [span]).spans == (span,)


async def test_curves_are_named_where_they_end_and_every_pane_says_the_step_of_the_cursor() -> None:
    async with opened(feed.training(400, gpu=True)) as screen:
        await screen.go("5")
        await screen.shows("allocated", "reserved", "workers", "ledger", "device 0 52.0 GiB")
        chart = [line for line in screen.text.splitlines() if "┤" in line or "│" in line]
        for name in ("allocated", "reserved", "process", "workers"):
            assert any(f" {name} " in f"{line} " for line in chart), name
        screen.app.workspace.view.show(200)
        of = "sample of step 199, 1 before"
        await screen.shows(f"memory {of}, GiB", "ledger step 200", f"resources {of}")
