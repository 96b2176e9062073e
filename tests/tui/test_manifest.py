"""What a run is, in lines: of a job, and of the log of another tool, which says less and no more than it knows."""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from ntstop.run.state import RunState
from ntstop.session import Session
from ntstop.sources.logs.discover import log_targets
from ntstop.sources.logs.source import LogSource
from ntstop.tui.app import NtstopApp
from ntstop.tui.widgets.manifest import manifest_entries
from ntstop_probe.wire import Hello, Manifest
from tests.monitor.records import Script, descent, hello
from tests.tui import feed
from tests.tui.opened import Screen

LOG = Path(__file__).parents[1] / "data" / "logs" / "lightning-metrics.csv"


def lines_of(hello: Hello, cursor: float | None = None) -> dict[str, str]:
    """Label to text."""
    state = RunState()
    state.apply(1, hello)
    for record in feed.training(100)[1:]:
        state.apply(1, record)
    assert state.primary is not None
    return {entry.label: entry.text for entry in manifest_entries(state.primary, hello, cursor=cursor)}


def test_the_batch_names_only_factors_that_are_more_than_one() -> None:
    def batch(world: int) -> str:
        return lines_of(structs.replace(feed.hello(), world=world, manifest=Manifest(batch_size=64)))["batch"]

    assert batch(1) == "64 a step" and batch(4) == "64 a rank × 4 ranks = 256 a step"


def test_the_learning_rate_is_that_at_the_cursor() -> None:
    assert lines_of(feed.hello())["rate now"] == "lr 3.00e-4"
    assert lines_of(feed.hello(), cursor=50.0)["rate"] == "lr 3.00e-4 at step 50"


def test_the_schedule_is_told_as_it_was_seen() -> None:
    def schedule(*rates: float) -> str:
        state = RunState()
        for record in Script().add(hello()).steps(descent(len(rates)), rate=list(rates)).records:
            state.apply(1, record)
        assert state.primary is not None and state.primary.hello is not None
        entries = manifest_entries(state.primary, state.primary.hello)
        return next(entry.text for entry in entries if entry.label == "schedule")

    assert schedule(*[1e-3] * 20) == "constant so far"
    assert schedule(1e-4, 5e-4, 1e-3, 8e-4, 6e-4) == "from 1.00e-4 up to 1.00e-3 at step 2, then down to 6.00e-4"
    assert schedule(1e-4, 5e-4, 1e-3) == "from 1.00e-4 up to 1.00e-3 at step 2"
    assert schedule(1e-3, 8e-4, 6e-4) == "from 1.00e-3, then down to 6.00e-4"
    assert schedule() == "not known"


async def test_a_log_has_no_process_no_start_in_1970_and_no_memory_and_says_so() -> None:
    with Session(LogSource(log_targets(LOG)[0])) as session:
        assert session.wait_for_end(30)
        async with NtstopApp(session).run_test(size=(120, 40)) as pilot:
            screen = Screen(pilot)
            await screen.until(lambda: screen.app.run_screen is not None, "a screen")
            await screen.go("8")
            await screen.shows("lightning-metrics.csv", "curves", "val_loss", "not in it", "none: this is the log")
            assert "1970" not in screen.text and "pid" not in screen.text
            await screen.go("5")
            await screen.shows("there is no memory in a log")
