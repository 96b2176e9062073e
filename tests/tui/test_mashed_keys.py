"""Every key, the mouse, pastes and sizes of the terminal in an order that nobody means: the screens hold."""

from __future__ import annotations

import random

import pytest
from textual import events
from textual.geometry import Size

from ntstop.tui.app import NtstopApp
from ntstop.tui.screens.base import RunScreen
from tests.tui import feed
from tests.tui.opened import WIDE, Fed, opened
from tests.tui.test_every_key import keys_of, lists

KEYS = (*sorted({key.key for name in lists() for key in keys_of(name)}), "x", "backspace", "f12")
LEAVING = ("action_leave", "action_suspend_process", "action_picture")
"""What ends or suspends the app, or writes a file: it is asked for like the rest, and not done."""
GESTURES: tuple[tuple[type[events.MouseEvent], ...], ...] = (
    (events.MouseDown, events.MouseUp),
    (events.MouseDown, events.MouseUp) * 2,
    (events.MouseDown, events.MouseMove, events.MouseMove, events.MouseUp),
    (events.MouseDown,),
    (events.MouseUp,),
    (events.MouseScrollUp,) * 5,
    (events.MouseScrollDown,) * 5,
)
SIZES = ((1, 1), (3, 200), (300, 100), (120, 40), (80, 24), (40, 10), (39, 9))
PASTES = ("x\n\ty", "\x1b[31m", "[b]", "中" * 300, "")
ACTS = 150


def act(screen: Fed, chance: random.Random) -> str:
    """Let one thing happen; says what."""
    app, kind = screen.app, chance.random()
    if kind < 0.6:
        key = chance.choice(KEYS)
        app.simulate_key(key)
        return key
    if kind < 0.9:
        # Beside the screen, too: a terminal may tell of a place before it tells of its new size.
        x, y = chance.randrange(-3, app.size.width + 9), chance.randrange(-3, app.size.height + 9)
        gesture, button = chance.choice(GESTURES), chance.choice((0, 1, 1, 2))
        for place, event in enumerate(gesture):
            app.post_message(event(None, x + place, y, 0, 0, button, False, False, False, x + place, y))
        return f"{gesture[0].__name__} {x} {y}"
    if kind < 0.95:
        return resize(screen, chance.choice(SIZES))
    app.post_message(events.Paste(text := chance.choice(PASTES)))
    return f"paste {text[:5]!r}"


def resize(screen: Fed, size: tuple[int, int]) -> str:
    """The terminal has another size."""
    screen.app.post_message(events.Resize(Size(*size), Size(*size)))
    return f"size {size}"


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_is_typed_clicked_and_resized_one_screen_of_the_run_is_left_and_it_draws(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in LEAVING:
        monkeypatch.setattr(NtstopApp, name, lambda app: None)
    chance = random.Random(seed)
    done: list[str] = []
    async with opened(feed.training(400, nan_from=300)) as screen:
        await screen.shows("CRIT")
        while len(done) < ACTS:
            done += [act(screen, chance) for _ in range(chance.choice((1, 1, 2, 5, 12)))]
            await screen.pilot.pause()
            stack = screen.app.screen_stack
            assert [isinstance(one, RunScreen) for one in stack[1:]] == [True] + [False] * (len(stack) - 2), done
        resize(screen, WIDE)
        while screen.app.screen is not screen.shown:
            await screen.pilot.press("escape")
        await screen.pilot.press("escape", "escape", "escape", "1")
        await screen.shows("nonfinite-loss", "layers grad")
