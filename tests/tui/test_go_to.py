"""`g`: a step is typed, and the cursor stands there."""

from __future__ import annotations

import pytest

from ntstop.tui.screens.go_to import GoToScreen, step_meant
from ntstop.tui.view import StepView
from tests.tui import feed
from tests.tui.opened import opened


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("1234", 1234),
        (" 1,234 ", 1234),
        ("1 234", 1234),
        ("12_345", 12_345),
        ("1.2k", 1200),
        ("1.2346K", None),
        (".5k", 500),
        ("0", 0),
        ("0.02M", 20_000),
        ("20k", 20_000),
        ("7.0", 7),
        ("1.23456k", None),
        ("1.5", None),
        ("1,2k", None),
        ("12,34", None),
        ("-5", None),
        ("", None),
        ("k", None),
        ("1e3", None),
        ("20,001", None),
        ("9999999999999999999999b", None),
    ],
)
def test_a_step_is_written_as_people_write_numbers_and_else_one_line_says_why_not(text: str, step: int | None) -> None:
    if step is not None:
        assert step_meant(text, 0, 20_000) == step
        return
    with pytest.raises(ValueError, match="step") as error:
        step_meant(text, 0, 20_000)
    assert "\n" not in str(error.value)


def test_a_step_that_is_gone_to_stands_in_the_middle_of_the_axis_and_the_axis_in_the_run() -> None:
    view = StepView()
    view.extend(0, 1000)
    view.go_to(300)
    assert view.cursor == 300 and view.span is None
    view.zoom(0.2)
    span = view.span
    assert span is not None
    view.go_to(600)
    assert view.cursor == 600 and view.window == (600 - span / 2, 600 + span / 2)
    view.go_to(990)
    assert view.cursor == 990 and view.window == (1000 - span, 1000)


async def test_g_asks_for_a_step_says_what_is_none_and_goes_to_one_that_is() -> None:
    async with opened(feed.training(2000)) as screen:
        view, app = screen.app.workspace.view, screen.app
        await screen.shows("loss")
        await screen.pilot.press("plus", "plus", "plus", "g")
        await screen.shows("go to a step", "a step from 0 to 1,999")
        await screen.pilot.press(*"5k", "enter")
        await screen.shows("there is no step 5,000", "0 to 1,999")
        await screen.pilot.press("backspace", "backspace", *"qx", "enter")
        await screen.shows("“qx” is no step")
        assert view.cursor is None and isinstance(app.screen, GoToScreen)
        await screen.pilot.press("backspace", "backspace", *"1.2k", "enter")
        await screen.until(lambda: app.screen is screen.shown and view.cursor == 1200, "the step")
        await screen.shows("step 1,200", "←→ ")
        left, right = view.window
        assert (left + right) / 2 == 1200
        await screen.pilot.press("g", *"7", "escape")
        await screen.until(lambda: app.screen is screen.shown, "nothing asked")
        assert view.cursor == 1200
