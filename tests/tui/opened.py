"""The app under test, on records that are fed to it: what can be read, what is waited for, which keys are pressed."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

from textual.pilot import Pilot

from ntstop.session import Session
from ntstop.tui.app import NtstopApp, screen_text
from ntstop.tui.keymap import PLAIN_KEYS, Keymap
from ntstop.tui.screens import SCREENS
from ntstop.tui.screens.base import RunScreen
from ntstop.tui.screens.overview import Overview
from ntstop_probe.wire import Record
from tests.tui import feed

WIDE, NARROW, TINY = (120, 40), (80, 24), (20, 5)
LONG_ENOUGH = 400
"""Turns of the message loop, a twentieth of a second each."""


class Screen:
    """The app on some run."""

    def __init__(self, pilot: Pilot[int]) -> None:
        self.pilot = pilot
        app = pilot.app
        assert isinstance(app, NtstopApp)
        self.app = app

    @property
    def text(self) -> str:
        """What can be read."""
        return screen_text(self.app.screen)

    @property
    def shown(self) -> RunScreen:
        """The screen of the run, under whatever lies over it."""
        screen = self.app.run_screen
        assert screen is not None
        return screen

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for it to come true."""
        for _ in range(LONG_ENOUGH):
            if condition():
                return
            await self.pilot.pause(0.05)
        raise AssertionError(f"not so after a while: {what}\n{self.text}")

    async def shows(self, *words: str) -> None:
        """Wait until all of these are to be read."""
        await self.until(lambda: all(word in self.text for word in words), f"the screen shows {words}")

    async def go(self, key: str, *keys: str) -> None:
        """Press the digit, wait for its screen, press the rest."""
        await self.pilot.press(key)
        await self.until(
            lambda: any(e.key == key and isinstance(self.shown, e.load()) for e in SCREENS), f"screen {key}"
        )
        await self.pilot.pause()
        for further in keys:
            await self.pilot.press(further)


class Fed(Screen):
    """The same with what feeds it."""

    def __init__(self, pilot: Pilot[int], source: feed.FedSource, session: Session) -> None:
        super().__init__(pilot)
        self.source = source
        self.session = session

    @property
    def overview(self) -> Overview:
        """The overview, under whatever lies over it."""
        return next(screen for screen in self.app.screen_stack if isinstance(screen, Overview))


@contextlib.asynccontextmanager
async def opened(
    records: Sequence[Record],
    size: tuple[int, int] = WIDE,
    *,
    output: str | None = None,
    keymap: Keymap = PLAIN_KEYS,
) -> AsyncIterator[Fed]:
    """The app on these records, once all of them are read."""
    source = feed.FedSource(records)
    with Session(source) as session:
        assert session.wait_for_end(30)
        app = NtstopApp(session, output_path=output, keymap=keymap)
        async with app.run_test(size=size, notifications=True) as pilot:
            screen = Fed(pilot, source, session)
            await screen.until(lambda: screen.app.run_screen is not None, "a screen")
            yield screen
