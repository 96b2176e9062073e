"""The list of the machine's runs over the screen: it is live; runs are looked at or laid over each other from it."""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ntstop.runlist import RunList
from ntstop.session import Session
from ntstop.tui.app import NtstopApp
from ntstop.tui.screens.runs import RunRows, RunsScreen
from tests.helpers import wait_until
from tests.monitor.writer import Writer, steps
from tests.tui import feed
from tests.tui.opened import Screen


def record(run: str, losses: list[float], *, title: str | None = None) -> Writer:
    writer = Writer(run, title=title)
    writer.send(steps(0, losses))
    writer.exit(0)
    writer.close()
    return writer


@contextlib.asynccontextmanager
async def opened(session: Session, size: tuple[int, int] = (120, 40)) -> AsyncIterator[Screen]:
    with session:
        assert session.wait_for_end(30)
        app = NtstopApp(session)
        async with app.run_test(size=size, notifications=True) as pilot:
            yield Screen(pilot)
        app.workspace.close()


@pytest.fixture
def three(home: Path) -> list[Path]:
    record("alpha", [3.0 - 0.01 * step for step in range(100)], title="tuned one")
    record("beta", [2.0] * 60)
    record("gamma", [math.nan] * 40)
    return [home / "runs" / name for name in ("alpha", "beta", "gamma")]


async def test_r_lists_every_run_with_state_steps_loss_curve_and_what_was_found(three: list[Path]) -> None:
    async with opened(Session(three[0])) as screen:
        await screen.pilot.press("R")
        await screen.shows("alpha", "tuned one", "beta", "gamma", "■ finished", "99", "2.010")
        await screen.shows("█▇", "✖ nonfinite-loss")
        await screen.pilot.press("escape")
        await screen.until(lambda: not isinstance(screen.app.screen, RunsScreen), "the list is closed")


async def test_a_run_that_begins_while_the_list_is_open_appears_in_it(three: list[Path]) -> None:
    async with opened(Session(three[0])) as screen:
        await screen.pilot.press("R")
        await screen.shows("beta")
        record("delta", [1.0] * 10)
        await screen.shows("delta")


async def test_enter_looks_at_the_chosen_run_instead(three: list[Path]) -> None:
    async with opened(Session(three[0])) as screen:
        await screen.shows("step 99", "tuned one")
        await screen.pilot.press("left", "R")
        await screen.shows("beta", "gamma")
        await choose(screen, "beta")
        await screen.pilot.press("enter")
        await screen.shows("step 59")
        assert len(screen.app.workspace.runs) == 1 and screen.app.workspace.view.cursor is None
        assert "tuned one" not in screen.text
        await screen.pilot.press("R")
        await screen.shows("alpha")
        await choose(screen, "alpha")
        await screen.pilot.press("enter")
        await screen.shows("step 99", "tuned one")


async def test_o_lays_a_run_over_and_takes_it_away_again(three: list[Path]) -> None:
    async with opened(Session(three[0])) as screen:
        await screen.pilot.press("2", "R")
        await screen.shows("beta", "gamma")
        await choose(screen, "beta")
        await screen.pilot.press("o", "escape")
        await screen.shows("alpha", "beta", "loss")
        assert [shown.name for shown in screen.app.workspace.runs] == ["alpha", "beta"]
        await screen.pilot.press("R")
        await screen.shows("gamma")
        await choose(screen, "beta")
        await screen.pilot.press("o", "escape")
        await screen.until(lambda: "beta" not in screen.text, "beta is gone")
        assert len(screen.app.workspace.runs) == 1


async def test_x_removes_a_run_that_has_ended_once_somebody_says_yes(three: list[Path]) -> None:
    async with opened(Session(three[0])) as screen:
        await screen.pilot.press("R")
        await screen.shows("alpha", "beta", "gamma")
        rows = screen.app.screen.query_one(RunRows)
        await screen.pilot.press("home")
        chosen, place = rows.rows[rows.place].entry.path, rows.place
        await screen.pilot.press("x")
        await screen.shows(f"remove {chosen.name}", "cannot be had back")
        await screen.pilot.press("escape")
        await screen.until(lambda: isinstance(screen.app.screen, RunsScreen), "the list again")
        assert chosen.exists()
        await screen.pilot.press("delete")
        await screen.shows("cannot be had back")
        await screen.pilot.press("y")
        await screen.until(lambda: len(rows.rows) == 2, "it is not listed any more")
        assert not chosen.exists() and rows.place == place


async def test_a_run_that_goes_on_is_not_removed(home: Path) -> None:
    writer = Writer("live")
    writer.send(steps(0, [2.0] * 30))
    writer.beat(30)
    async with opened(Session(home / "runs" / "live")) as screen:
        await screen.pilot.press("R")
        await screen.shows("● live")
        await screen.pilot.press("x")
        await screen.shows("live is not removed: it is live")
        assert (home / "runs" / "live").exists()
    writer.close()


async def test_the_run_that_others_are_laid_over_cannot_be_taken_away(three: list[Path]) -> None:
    async with opened(Session(three[0])) as screen:
        await screen.pilot.press("R")
        await screen.shows("beta")
        await choose(screen, "alpha")
        await screen.pilot.press("o")
        await screen.shows("this is the run that others are laid over")
        assert len(screen.app.workspace.runs) == 1


async def test_what_comes_through_a_pipe_is_kept_and_others_are_laid_over_it(three: list[Path]) -> None:
    async with opened(Session(feed.FedSource(feed.training(300)))) as screen:
        await screen.pilot.press("R")
        await screen.shows("beta")
        await choose(screen, "beta")
        await screen.pilot.press("enter")
        await screen.shows("what has no folder could not be opened again")
        await screen.pilot.press("o", "escape", "2")
        await screen.shows("run-1", "beta")


async def test_no_run_at_all_is_said(home: Path) -> None:
    async with opened(Session(feed.FedSource(feed.training(50)))) as screen:
        await screen.pilot.press("R")
        await screen.shows("no runs yet")
        await screen.pilot.press("enter", "o", "down", "escape")


async def test_at_80_by_24_the_list_keeps_its_most_important_columns(three: list[Path]) -> None:
    async with opened(Session(three[0]), size=(80, 24)) as screen:
        await screen.pilot.press("R")
        await screen.shows("alpha", "finished", "██▇▆", "✖ nonfinite-loss")


async def test_of_a_run_that_is_shown_all_is_known_however_long_it_is(
    three: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ntstop.runlist._MOST_BYTES", 0)
    async with opened(Session(three[0])) as screen:
        await screen.pilot.press("R")
        await screen.shows("alpha", "beta", "██▇▆▆▅▄▄▃▂▁▁")
        assert "▅▅▅▅" not in screen.text


def test_a_recording_that_is_too_long_is_listed_without_its_curve(
    three: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ntstop.runlist._MOST_BYTES", core_size(three[1]))
    source = RunList()
    source.start()
    try:
        wait_until(lambda: any(row.gist for row in source.listed), 20, 0.02, "the short ones were read")
        wait_until(lambda: source.version > 3, 20, 0.02, "and shown")
        read = {row.entry.id: row.gist is not None for row in source.listed}
        assert read["beta"] and not read["alpha"]
    finally:
        source.stop()


def core_size(run: Path) -> int:
    return sum(path.stat().st_size for path in run.glob("*/*.nts"))


async def choose(screen: Screen, run: str) -> None:
    """Move to the row of a run."""
    shown = screen.app.screen
    assert isinstance(shown, RunsScreen)
    await screen.until(lambda: any(row.entry.id == run for row in shown.rows.rows), f"{run} is listed")
    await screen.pilot.press("home")
    while shown.rows.rows[shown.rows.place].entry.id != run:
        before = shown.rows.place
        await screen.pilot.press("down")
        assert shown.rows.place > before, f"{run} was passed by"
