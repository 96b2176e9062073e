"""Keys that come faster than screens change: held down, pasted, or all at once over a slow link."""

from __future__ import annotations

import pytest
from textual.events import Key
from textual.keys import _character_to_key as name_of

from ntstop.tui.screens.base import RunScreen
from ntstop.tui.screens.curves import CurvesScreen
from tests.tui import feed
from tests.tui.opened import Fed, opened


def pressed_at_once(screen: Fed, keys: str) -> None:
    """Put all of them into the app's queue before it handles the first."""
    for name in keys.split():
        if len(name) == 1:
            screen.app.post_message(Key(name_of(name), name))
        else:
            screen.app.post_message(Key(name, " " if name == "space" else None))


@pytest.mark.parametrize(
    "keys",
    [
        "enter enter a 2",  # the curves of a card are asked for, and a note is opened before they come
        "enter enter a escape 3 4 R escape 1",
        "R escape escape escape 3",
        "? escape escape enter escape escape 1",
        "R enter enter enter escape",
    ],
)
async def test_one_screen_of_the_run_stays_at_the_bottom_whatever_is_typed_at_once(keys: str) -> None:
    async with opened(feed.training(400, nan_from=300)) as screen:
        await screen.shows("CRIT")
        for _ in range(3):
            pressed_at_once(screen, keys)
            await screen.pilot.pause(0.1)
            assert isinstance(screen.app.screen_stack[1], RunScreen)
            assert not any(isinstance(over, RunScreen) for over in screen.app.screen_stack[2:])
        await screen.pilot.press("escape", "escape", "escape", "1")
        await screen.shows("nonfinite-loss", "layers grad")


async def test_enter_twice_at_once_keeps_a_note_once_and_leaves_the_run_on_the_screen() -> None:
    async with opened(feed.training(400, nan_from=300)) as screen:
        await screen.shows("CRIT")
        await screen.pilot.press("a")
        await screen.shows("a note, or nothing")
        await screen.pilot.press("x")
        pressed_at_once(screen, "enter enter enter")
        await screen.shows("ACK", "x · ")
        assert len(screen.app.screen_stack) == 2


@pytest.mark.parametrize("keys", ["q enter 2 R", "q 8", "q ? 1 a", "2 q", "enter ctrl+c", "enter a ctrl+c"])
async def test_keys_around_the_one_that_leaves_do_not_break_what_is_being_taken_away(keys: str) -> None:
    async with opened(feed.training(400, nan_from=300)) as screen:
        await screen.shows("CRIT")
        pressed_at_once(screen, keys)
        await screen.until(lambda: not screen.app.is_running, "it has ended")
        assert screen.app.return_code == 0


async def test_what_is_typed_behind_enter_is_no_part_of_a_filter_but_acts_on_what_it_found() -> None:
    async with opened(feed.training(400)) as screen:
        await screen.go("2")
        shown = screen.shown
        assert isinstance(shown, CurvesScreen)
        pressed_at_once(screen, "slash l r enter o S")
        await screen.until(lambda: shown.pane.choice.is_reversed, "the last of the keys")
        assert (shown.pane.choice.filter, shown.filter.value) == ("lr", "lr")
        assert shown.pane.choice.overlaid == ["lr"]


async def test_a_step_a_note_and_a_command_end_with_enter_however_fast_more_is_typed() -> None:
    async with opened(feed.training(400)) as screen:
        await screen.shows("layers grad")
        view = screen.app.workspace.view
        pressed_at_once(screen, "g 1 2 0 enter y")
        await screen.until(lambda: view.log, "the last of the keys")
        assert view.cursor == 120
        pressed_at_once(screen, "m h i enter y")
        await screen.until(lambda: not view.log, "the last of the keys")
        assert {step: mark.note for step, mark in screen.session.kept.marks.items()} == {120: "hi"}
        pressed_at_once(screen, "ctrl+p s m o o t h enter y")
        await screen.until(lambda: view.log and view.smoothing != "light", "the command, and the key behind it")


async def test_a_step_that_there_is_not_leaves_the_line_open_for_what_is_typed_next() -> None:
    async with opened(feed.training(400)) as screen:
        await screen.shows("layers grad")
        await screen.pilot.press("g")
        await screen.shows("a step from 0 to 399")
        pressed_at_once(screen, "9 9 9 enter backspace enter")
        await screen.until(lambda: screen.app.workspace.view.cursor == 99, "the step that is left of it")
