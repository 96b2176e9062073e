"""ctrl+p: everything that can be done here, by its name; and the first finding that n goes to."""

from __future__ import annotations

import pytest
from textual import events

from ntstop.session import Session
from ntstop.tui.app import NtstopApp
from ntstop.tui.keymap import keymap_of
from ntstop.tui.screens.commands import CommandsScreen, commands_of, matching
from ntstop.tui.screens.help import HelpScreen
from ntstop.tui.widgets.layer_table import LayerTable
from tests.tui import feed
from tests.tui.opened import NARROW, WIDE, Fed, Screen, opened


async def ask(screen: Screen, words: str) -> None:
    """Open the commands and type."""
    await screen.pilot.press("ctrl+p")
    await screen.until(lambda: isinstance(screen.app.screen, CommandsScreen), "the commands")
    await screen.pilot.press(*("space" if letter == " " else letter for letter in words))


@pytest.mark.parametrize("size", [NARROW, WIDE])
async def test_words_find_an_action_and_enter_does_it(size: tuple[int, int]) -> None:
    async with opened(feed.training(1000), size) as screen:
        await screen.shows("loss")
        await ask(screen, "zoom show")
        await screen.shows("zoom-in", "zoom-out", "show fewer steps", "show more steps", "+ =")
        await screen.pilot.press("down", "enter")
        await screen.until(lambda: screen.app.screen is screen.shown, "the screen again")
        assert screen.app.workspace.view.span is None, "out of the whole run there is nothing"
        await ask(screen, "zoom-in")
        await screen.pilot.press("enter")
        await screen.until(lambda: screen.app.workspace.view.span is not None, "zoomed in")
        await ask(screen, "layers norms")
        await screen.pilot.press("enter")
        await screen.until(lambda: screen.shown.TITLE == "layers", "the screen of the layers")


async def test_what_the_focused_pane_can_do_is_there_and_acts_on_it_and_help_says_it_first() -> None:
    async with opened(feed.training(1000)) as screen:
        await screen.go("3")
        table = screen.shown.query_one(LayerTable)
        await screen.until(lambda: len(table.rows) == 12, "12 layers")
        names = [command.name for command in commands_of(screen.shown)]
        assert names.index("sort") < names.index("fold") < names.index("quit")
        await ask(screen, "last")
        await screen.pilot.press("enter")
        await screen.until(lambda: table.place == 11, "the last row")
        await screen.pilot.press("question_mark")
        await screen.until(lambda: isinstance(screen.app.screen, HelpScreen), "the help")
        assert screen.text.index("this pane") < screen.text.index("everywhere")


async def test_nothing_found_and_escape_do_nothing() -> None:
    async with opened(feed.training(1000)) as screen:
        await screen.shows("loss")
        before = screen.app.workspace.view.key
        await ask(screen, "xyzzy")
        await screen.shows("nothing has these words")
        await screen.pilot.press("down", "enter")
        await ask(screen, "log")
        await screen.pilot.press("escape")
        await screen.until(lambda: screen.app.screen is screen.shown, "the screen again")
        assert screen.app.workspace.view.key == before


@pytest.mark.parametrize("key", "12378")
async def test_no_two_actions_are_told_by_the_same_words(key: str) -> None:
    async with opened(feed.training(300)) as screen:
        await screen.go(key)
        words = [command.help for command in commands_of(screen.shown)]
        assert all(words) and len(set(words)) == len(words), sorted(words)


async def test_moved_keys_stand_beside_their_commands() -> None:
    with Session(feed.FedSource(feed.training(300))) as session:
        assert session.wait_for_end(30)
        app = NtstopApp(session, keymap=keymap_of({"log": ["l", "f6"], "commands": "f2"}))
        async with app.run_test(size=(120, 40)) as pilot:
            screen = Screen(pilot)
            await screen.until(lambda: screen.app.run_screen is not None, "a screen")
            found = {command.name: command.keys for command in commands_of(screen.shown)}
            assert found["log"] == "l f6" and found["commands"] == "f2"
            await pilot.press("f2")
            await screen.until(lambda: isinstance(app.screen, CommandsScreen), "the commands")


async def test_names_come_before_words_of_the_help() -> None:
    async with opened(feed.training(300)) as screen:
        await screen.shows("loss")
        found = [command.name for command in matching(commands_of(screen.shown), "findings")]
        assert found[0] == "findings"


async def test_the_first_n_goes_to_the_weightiest_finding_and_the_first_N_to_the_last() -> None:
    records = feed.training(400, nan_from=300)
    for keys, places in (("nn", [0, 1]), ("NN", [-1, -2])):
        async with opened(records) as screen:
            await screen.shows("CRIT", "unreproducible")
            workspace = screen.app.workspace
            for key, place in zip(keys, places, strict=True):
                await screen.pilot.press(key)
                expected = workspace.findings[place % len(workspace.findings)]
                assert workspace.finding is expected or workspace.finding == expected
                assert workspace.view.cursor == expected.first_step


async def paste(screen: Fed, text: str) -> None:
    screen.app.post_message(events.Paste(text))
    await screen.pilot.pause()


async def test_a_paste_does_nothing_but_where_text_is_typed() -> None:
    async with opened(feed.training(400)) as screen:
        await screen.shows("loss")
        before, shown = screen.app.workspace.view.key, screen.shown
        await paste(screen, "qqq1234\nyes\x1b[31m\ny")
        assert screen.app.is_running and screen.shown is shown and screen.app.workspace.view.key == before
        await screen.go("2", "slash")
        await paste(screen, "lo\nss\n")
        await screen.shows("/lo")
        assert screen.app.is_running
