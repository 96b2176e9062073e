"""The card of a finding, and what can be pressed while it or another dialog lies over the screen."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

from ntstop.diagnosis import card
from ntstop.session import Session
from ntstop.tui.screens.card import CardScreen
from ntstop.tui.screens.help import HelpScreen
from ntstop.tui.screens.runs import RunsScreen
from ntstop.tui.widgets.hints import Hints
from tests.tui import feed
from tests.tui.opened import Screen, opened
from tests.tui.test_lines import finding
from tests.tui.test_runs import opened as opened_run
from tests.tui.test_runs import record


def test_nothing_is_open_any_more_in_a_run_that_has_ended() -> None:
    one = finding()
    assert card.title(one).endswith(", open)") and card.title(one, has_ended=True).endswith(", the end)")
    over = finding(status="resolved")
    assert card.title(over) == card.title(over, has_ended=True)


async def test_the_card_of_a_run_that_has_ended_says_to_the_end(home: Path) -> None:
    record("broken", [*[2.0] * 30, *[math.nan] * 30])
    async with opened_run(Session(home / "runs" / "broken")) as screen:
        await screen.shows("FINISHED", "nonfinite-loss")
        await screen.pilot.press("n", "enter")
        await screen.shows("(step 30 to 59, the end)")
        await screen.pilot.press("escape")
        await screen.go("7")
        await screen.shows("(step 30 to 59, the end)")


def last_line(screen: Screen) -> str:
    return screen.shown.query_one(Hints).picture.text()


async def test_under_a_card_the_last_line_shows_its_keys_and_they_act() -> None:
    async with opened(feed.training(400, nan_from=300)) as screen:
        await screen.shows("CRIT", "nonfinite-loss")
        await screen.until(lambda: "quit" in last_line(screen), "the keys of the overview")
        await screen.pilot.press("enter")
        await screen.until(lambda: isinstance(screen.app.screen, CardScreen), "the card")
        await screen.until(lambda: "esc back" in last_line(screen) and "quit" not in last_line(screen), "its keys")
        await screen.pilot.press("question_mark")
        await screen.until(lambda: isinstance(screen.app.screen, HelpScreen), "the help")
        await screen.shows("the curves at the step where it began")
        await screen.pilot.press("question_mark")
        await screen.until(lambda: isinstance(screen.app.screen, CardScreen), "the card again")
        first = screen.app.workspace.finding
        await screen.pilot.press("n")
        second = screen.app.workspace.finding
        assert first is not None and second is not None and first.id != second.id
        await screen.shows(second.kind, card.title(second))
        await screen.pilot.press("N")
        await screen.shows(card.title(first))
        await screen.pilot.press("5")
        await screen.until(lambda: screen.app.screen is screen.shown and screen.shown.TITLE == "memory", "the memory")
        await screen.until(lambda: "quit" in last_line(screen), "its keys")


async def test_an_open_card_follows_what_becomes_of_the_finding() -> None:
    async with opened(feed.training(400, nan_from=300)) as screen:
        await screen.shows("CRIT", "nonfinite-loss")
        await screen.pilot.press("n", "enter")
        await screen.shows("to 399, open)")
        screen.source.give([feed.steps(400, 50, nan_from=300)])
        await screen.shows("to 449, open)")


async def test_of_a_run_whose_folder_is_removed_it_is_said(home: Path) -> None:
    record("gone", [2.0] * 30)
    async with opened_run(Session(home / "runs" / "gone")) as screen:
        await screen.shows("FINISHED")
        shutil.rmtree(home / "runs" / "gone")
        await screen.shows("REMOVED", "its folder is gone")
        await screen.pilot.press("left_square_bracket")
        await screen.shows("only a run that has ended")
        await screen.pilot.press("m")
        await screen.shows("nothing is kept")
        await screen.pilot.press("R")
        await screen.until(lambda: isinstance(screen.app.screen, RunsScreen), "the list")


async def test_on_a_small_terminal_a_card_has_no_margin() -> None:
    async with opened(feed.training(400, nan_from=300), (60, 20)) as screen:
        await screen.shows("nonfinite-loss")
        await screen.pilot.press("n", "enter")
        await screen.shows("╭─ nonfinite-loss", "Symptom")
        await screen.until(lambda: screen.text.startswith("╭"), "it begins in the first row")
        await screen.pilot.resize_terminal(100, 30)
        await screen.until(lambda: not screen.text.startswith("╭"), "there is room around it")
