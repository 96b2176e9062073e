"""Keys that come faster than screens change: held down, pasted, or all at once over a slow link."""

from __future__ import annotations

import pytest
from textual.events import Key
from textual.keys import _character_to_key as name_of

from ntstop.tui.screens.base import RunScreen
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
