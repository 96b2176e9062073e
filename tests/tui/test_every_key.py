"""Every key of every list does something that can be seen, where its list acts: none is a promise of the help alone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Sequence
from pathlib import Path

import pytest
from textual.binding import Binding, BindingType
from textual.widgets import Input

from ntstop.session import Session
from ntstop.tui import bindings
from ntstop.tui.app import NtstopApp
from ntstop.tui.screens import SCREENS
from ntstop.tui.screens.runs import RunsScreen
from ntstop.tui.widgets.pane import Pane
from tests.monitor.writer import Writer, steps
from tests.tui import feed
from tests.tui.opened import Screen

PLACES: dict[str, tuple[str, ...]] = {
    "APP": (),
    "RUN": (),
    "OVERVIEW": (),
    "FINDINGS": ("#findings",),
    "LAYERS": ("#layers",),
    "CURVES": ("2",),
    "CURVES_PANE": ("2", "#curves"),
    "LAYERS_SCREEN": ("3",),
    "LAYER_CURVES": ("3", "#layer-curves"),
    "TABLE": ("3", "#layer-table"),
    "STEP_TABLE": ("4", "#slowest"),
    "FINDINGS_SCREEN": ("7",),
    "LINES": ("8", "#probe"),
    "CARD": ("enter",),
    "NOTE": ("a",),
    "RUNS": ("R",),
    "CONFIRM": ("R", "x"),
    "COMMANDS": ("ctrl+p",),
    "GO_TO": ("g",),
    "LAYER_OUT": ("question_mark",),
}
"""Name of a list to what is pressed, or focused (`#`), to be where it acts."""

TOGETHER = (
    ("APP", "RUN", "OVERVIEW", "FINDINGS", "LAYERS"),
    ("CURVES", "CURVES_PANE", "LAYERS_SCREEN", "LAYER_CURVES", "TABLE"),
    ("STEP_TABLE", "FINDINGS_SCREEN", "LINES"),
    ("CARD", "NOTE", "RUNS", "CONFIRM", "GO_TO", "COMMANDS", "LAYER_OUT"),
)
"""Lists that are tried in one app: opening one takes longer than a key."""

BEFORE: dict[tuple[str, str], str] = {
    ("APP", "1"): "2",
    ("RUN", "right"): "left left shift+left",
    ("RUN", "shift+right"): "left shift+left",
    ("RUN", "minus"): "plus",
    ("RUN", "0"): "plus",
    ("RUN", "escape"): "left",
    ("RUN", "right_square_bracket"): "left_square_bracket",
    ("RUN", "less_than_sign"): "left_square_bracket",
    ("RUN", "greater_than_sign"): "left_square_bracket",
    ("CURVES", "O"): "enter o down o",
    ("CURVES", "escape"): "enter",
    ("CURVES", "P"): "down",
    ("CURVES_PANE", "up"): "down",
    ("LAYER_CURVES", "up"): "down",
    ("CURVES_PANE", "pageup"): "pagedown",
    ("CURVES_PANE", "home"): "end",
    ("TABLE", "up"): "down",
    ("TABLE", "pageup"): "end",
    ("STEP_TABLE", "up"): "down",
    ("STEP_TABLE", "pageup"): "end",
    ("FINDINGS", "up"): "down",
    ("LAYERS", "down"): "up up",
    ("LINES", "up"): "end",
    ("LINES", "pageup"): "end",
    ("LINES", "home"): "end",
    ("NOTE", "ctrl+r"): "x enter a",
    ("RUNS", "o"): "up",
    ("COMMANDS", "up"): "down",
}
"""What must have been pressed for a key to have anything to do."""

ELSEWHERE = {
    ("APP", "q"): "it ends the app, with ctrl+c: tests of the terminal's accidents",
    ("APP", "ctrl+c"): "see q",
    ("CONFIRM", "y"): "it removes the run: tests of the runs",
    ("APP", "ctrl+z"): "it stops the process: tests of the terminal's accidents and of the mouse",
}
NOTHING = 8
"""Looks after which a key that is bound to nothing has done nothing."""
A_TICK = 40
"""Looks that last longer than the 0.25 s after which the app looks again: what it draws only then has been drawn."""
OF_A_REPLAY = ("left_square_bracket", "right_square_bracket", "less_than_sign", "greater_than_sign")
SIZE = (120, 28)
"""Of a terminal too low for all rows, so that they scroll."""
PATIENCE = 300
"""Looks, a hundredth of a second or more apart, after which a key is taken to do nothing."""


def lists() -> dict[str, Sequence[BindingType]]:
    """All of the module, by name."""
    return {name: told for name, told in vars(bindings).items() if name.isupper() and isinstance(told, list)}


def keys_of(name: str) -> list[Binding]:
    """The bindings of a list, one a key."""
    return list(Binding.make_bindings(lists()[name]))


def test_every_list_has_a_place_where_its_keys_are_tried() -> None:
    assert set(PLACES) == set(lists()) == {name for names in TOGETHER for name in names}


@contextlib.asynccontextmanager
async def run_in_a_folder(home: Path) -> AsyncIterator[Screen]:
    """The app on a run that has ended and may be replayed, with layers, findings, and another run beside it."""
    for name in ("run-1", "run-2"):
        writer = Writer(name, title="the other one" if name == "run-2" else None)
        schema = feed.schema([f"blocks.{block}.{part}" for block in range(12) for part in ("attn", "mlp", "norm")])
        writer.send(*[steps(first, [3.0 - first / 100] * 20, at=first) for first in range(0, 200, 20)])
        writer.send(*[record for record in feed.training(200, nan_from=150) if type(record).__name__ == "Scalars"])
        writer.send_layers(schema, *[feed.layers(ordinal, len(schema.names)) for ordinal in range(0, 200, 10)])
        writer.send(steps(200, [float("nan")] * 20, at=200))
        writer.beat(220)
        writer.exit(1)
        writer.close()
    with Session(home / "runs" / "run-1") as session:
        assert session.wait_for_end(30)
        async with NtstopApp(session).run_test(size=SIZE, notifications=True) as pilot:
            screen = Screen(pilot)
            await screen.until(lambda: screen.app.run_screen is not None, "a screen")
            await screen.shows("loss", "nonfinite-loss")
            yield screen


async def until(condition: Callable[[], bool], looks: int = 3000) -> bool:
    """Whether it comes true within so many looks. Without the pilot, who waits after each key for an idle processor."""
    for _ in range(looks):
        if condition():
            return True
        await asyncio.sleep(0.01)
    return False


async def press(screen: Screen, key: str, looks: int = 3000) -> bool:
    """Press a key and wait for it to change something; whether it has."""
    before = state(screen)
    screen.app.simulate_key(key)
    return await until(lambda: state(screen) != before, looks)


async def go_to(screen: Screen, places: Sequence[str]) -> None:
    """Press and focus what leads there."""
    for place in places:
        if place.startswith("#"):
            screen.shown.query_one(place, Pane).focus()
            assert await until(lambda place=place: screen.app.focused is screen.shown.query_one(place)), place  # type: ignore[misc]
        elif place.isdigit():
            title = next(entry.name for entry in SCREENS if entry.key == place)
            screen.app.simulate_key(place)
            assert await until(lambda title=title: title == screen.shown.TITLE), place  # type: ignore[misc]
        else:
            assert await press(screen, place), place
            assert await until(lambda: screen.app.screen is not screen.shown), place
            assert await until(lambda: not is_looking(screen.app.screen)), place
        await settled(screen)


def is_looking(shown: object) -> bool:
    """Whether a list of the runs has not found both of them yet."""
    return isinstance(shown, RunsScreen) and len(shown.rows.rows) < 2


async def settled(screen: Screen, looks: int = NOTHING) -> None:
    """Wait until all is drawn: so many looks without a change."""
    before, quiet = state(screen), 0
    while quiet < looks:
        await asyncio.sleep(0.01)
        now = state(screen)
        before, quiet = now, quiet + 1 if now == before else 0


def state(screen: Screen) -> Hashable:
    """What a key may change: what is to be read, which screen lies on top, what has the focus, how it looks."""
    app, text = screen.app, screen.text
    if (listed := next((one for one in app.screen_stack if isinstance(one, RunsScreen)), None)) is not None:
        # Runs grow older by themselves, under a question too.
        text = f"{listed.rows.place} of {len(listed.rows.rows)}, {len(app.workspace.runs)} shown"
        text += f", {[note.message for note in app._notifications]}"
    return text, id(app.screen), id(app.screen.focused), app.theme, app.workspace.view.key


async def home_again(screen: Screen) -> None:
    """The overview, nothing over it, all of the run in view."""
    while screen.app.screen is not screen.shown or isinstance(screen.app.focused, Input):
        assert await press(screen, "escape"), "one layer out"
    if screen.shown.TITLE != "overview":
        await go_to(screen, "1")
    await look_at_all(screen)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("names", TOGETHER, ids=" ".join)
async def test_every_key_does_something_where_its_list_acts(
    names: Sequence[str], home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)
    idle: list[str] = []
    async with run_in_a_folder(home) as screen:
        there: Hashable = None
        for name, key in in_order(names):
            if there != (name, where(screen)):
                await home_again(screen)
                await go_to(screen, PLACES[name])
                there = name, where(screen)
            if key is None:
                screen.app.clear_notifications()  # They go by themselves after seconds.
                await settled(screen, A_TICK)
                assert not await press(screen, "f12", NOTHING), f"{name}: the screen changes without a key"
                continue
            for earlier in BEFORE.get((name, key.key), "").split():
                await press(screen, earlier, PATIENCE)
            screen.app.clear_notifications()  # They go with a key that does nothing else, too.
            if not await press(screen, key.key, PATIENCE):
                idle.append(f"{name} {key.key}: {key.action}")
            await settled(screen)
            await look_at_all(screen)
    assert not idle


def where(screen: Screen) -> Hashable:
    """What lies on top, and what has the focus."""
    return id(screen.app.screen), id(screen.app.focused)


async def look_at_all(screen: Screen) -> None:
    """All of the run in view, no cursor, no pause."""
    view = screen.app.workspace.view
    if (view.span, view.end, view.cursor, view.frozen) != (None,) * 4:
        view.span = view.end = view.cursor = view.frozen = None
        screen.shown.redraw()
        await settled(screen)


def in_order(names: Sequence[str]) -> Iterator[tuple[str, Binding | None]]:
    """Each list with None, for a key that is bound to nothing, and with its keys; those of a replay last."""
    for name in names:
        yield name, None
        for key in keys_of(name):
            if (name, key.key) not in ELSEWHERE and key.key not in OF_A_REPLAY:
                yield name, key
    yield from (("RUN", key) for key in keys_of("RUN") if "RUN" in names and key.key in OF_A_REPLAY)
