"""The textual app: the overview of one run, and what lies over it."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from textual import events
from textual.app import App
from textual.await_complete import AwaitComplete
from textual.filter import ANSIToTruecolor, LineFilter
from textual.screen import Screen
from textual.widgets import Input
from textual.widgets._toast import ToastHolder

from ..session import Session
from ..settings import View
from ..text import use_bytes
from . import bindings, terminal
from .keymap import PLAIN_KEYS, Keymap, keymap_of
from .screens import SCREENS
from .screens.base import RunScreen
from .screens.card import CardScreen
from .screens.help import HelpScreen
from .screens.runs import RunsScreen
from .themes import ANSI, ANSI_LIGHT, THEMES, first_theme, next_theme
from .workspace import Shown, Workspace

BEGIN = View()
NO_KEYS: Mapping[str, str | Sequence[str]] = {}


class NtstopApp(App[int], inherit_bindings=False):
    """Looks at one session. `title` and `output_path` (where the job's output goes) are only shown.

    `compared`: the names and sessions of several runs to be laid over each other, `session` the first of them.
    `begin`: how the screen begins, as the user's configuration has it.
    """

    BINDINGS: ClassVar = bindings.APP
    CSS_PATH = "ntstop.tcss"
    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False
    """A drag moves the axis; text is selected by the terminal itself."""
    AUTO_FOCUS = None

    def __init__(
        self,
        session: Session,
        *,
        title: str | None = None,
        output_path: str | None = None,
        compared: Sequence[tuple[str, Session]] = (),
        begin: View = BEGIN,
        keymap: Keymap = PLAIN_KEYS,
    ) -> None:
        super().__init__(driver_class=terminal.Driver)
        runs = [Shown(run, name) for name, run in compared] or [Shown(session)]
        self.workspace = Workspace(runs, title=title, output_path=output_path)
        self.keymap = keymap
        """Where the user has put the keys."""
        # Here and not where they are looked up: under a dialog, too, a key that was moved is not where it was.
        self._bindings = keymap.apply(self._bindings)
        self.animation_level = "none"
        self.ascii_only = terminal.is_ascii_only()
        self._poor = terminal.has_few_colours()
        self.without_colours = terminal.has_no_colours()
        """Whether to draw for a terminal that has none."""
        for theme in THEMES:
            self.register_theme(theme)
        self.palette = begin.palette
        """Name of the colours of curves, phases and heat."""
        self.refresh_seconds = begin.refresh
        use_bytes(begin.units)
        self.workspace.view.smoothing = begin.smoothing
        self.theme = first_theme(begin.theme, few_colours=self._poor)

    @property
    def few_colours(self) -> bool:
        """Whether to draw with the terminal's own 16 colours."""
        return self._poor or self.theme in (ANSI, ANSI_LIGHT)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Without the one that looks for colours of the terminal's own in every piece of every line: where they are
        drawn they are meant, and what it returns is a second copy of the screen."""
        return [each for each in super().get_line_filters() if not isinstance(each, ANSIToTruecolor)]

    def on_mount(self) -> None:
        """Take the terminal in hand, show the overview, and look at the sessions now and then."""
        terminal.guard(self)
        terminal.attend(self, self.workspace.ask_for_quiet)
        self.push_screen(self._installed(SCREENS[0].name if len(self.workspace.runs) == 1 else "curves"))
        self.set_interval(self.refresh_seconds, self.tick)

    @property
    def run_screen(self) -> RunScreen | None:
        """The screen of a run that is shown, under whatever lies over it."""
        return next((screen for screen in reversed(self.screen_stack) if isinstance(screen, RunScreen)), None)

    def tick(self) -> None:
        """Let the screen that is shown draw what is new; the others wait until they are."""
        if (screen := self.run_screen) is not None:
            screen.tick(at_leisure=True)

    def _installed(self, name: str) -> RunScreen:
        """The screen of this name, built when it is first asked for."""
        known = self._installed_screens.get(name)
        if isinstance(known, RunScreen):
            return known
        entry = next(entry for entry in SCREENS if entry.name == name)
        screen = entry.load()(self.workspace)
        self.install_screen(screen, name)
        return screen

    def action_go(self, name: str) -> None:
        """Show another screen, or say why there would be nothing on it."""
        entry = next(entry for entry in SCREENS if entry.name == name)
        if why := entry.load().hidden_why(self.workspace):
            self.notify(f"{name}: {why}", timeout=3)
            return
        while not isinstance(self.screen, RunScreen):  # keys come faster than screens go: a note may lie over it by now
            self.pop_screen()
        self.switch_screen(self._installed(name))

    def pop_screen(self) -> AwaitComplete:
        """Take away what lies over the screen of the run, never that screen itself: two keys may each ask for it."""
        return AwaitComplete() if isinstance(self.screen, RunScreen) else super().pop_screen()

    def clear_notifications(self) -> None:
        """Take away all that was said, with its boxes: textual leaves these in the screen, one more each time."""
        super().clear_notifications()
        for screen in self.screen_stack:
            screen.query(ToastHolder).remove()

    async def on_event(self, event: events.Event) -> None:
        """What was said of a key goes with the next one.

        Once it is to end, what was typed behind that opens nothing any more: its screens are being taken away.
        """
        if self._notifications and isinstance(event, (events.Key, events.MouseDown)):
            self.clear_notifications()
        if self._exit and isinstance(event, events.InputEvent):
            return
        if isinstance(event, events.Key) and not event.is_forwarded and not isinstance(self.focused, Input):
            # At once, not by way of the pane that has the focus: the next key may be for what this one opens.
            for is_first in (True, False):
                if await self._check_bindings(event.key, priority=is_first):
                    return
        await super().on_event(event)

    def action_leave(self) -> None:
        """Quit the viewer; the job is not touched."""
        self.exit(return_code=0)

    def action_help(self) -> None:
        """Show what the keys do here, made from the bindings that are active now."""
        self.push_screen(HelpScreen.of(self.screen))

    def action_commands(self) -> None:
        """Find what can be done here by its name, and do it."""
        from .screens.commands import Command, CommandsScreen, commands_of

        def do(command: Command | None) -> None:
            if command is not None:
                self.call_later(self.run_action, command.action, command.node)

        self.push_screen(CommandsScreen(commands_of(self.screen)), do)

    def on_card_screen_curves(self, event: CardScreen.Curves) -> None:
        """From a card: the curves that it rests on, at the step where it began."""
        self.workspace.pick(event.finding)
        self.action_go("curves")
        from .screens.curves import CurvesScreen

        if isinstance(screen := self._installed("curves"), CurvesScreen):
            screen.show_one_of([item.series for item in event.finding.evidence])

    def action_runs(self) -> None:
        """List the runs of this machine."""
        self.push_screen(RunsScreen(self.workspace))

    def action_next_theme(self) -> None:
        """dark → light → the terminal's own 16 colours, for a dark and for a light ground → dark."""
        self.theme = next_theme(self.theme, few_colours=self._poor)
        for screen in self._installed_screens.values():
            if isinstance(screen, RunScreen):
                screen.restyle()

    def action_picture(self) -> None:
        """Write the screen to `ntstop-<time>.svg` and `.txt` in the current folder."""
        try:
            path = _not_taken(time.strftime("ntstop-%Y%m%d-%H%M%S"))
            path.write_text(self.export_screenshot(title="ntstop"), encoding="utf-8")
            path.with_suffix(".txt").write_text(screen_text(self.screen), encoding="utf-8")
        except OSError as error:
            self.notify(f"no picture: {error.strerror}: {error.filename}", severity="error", timeout=5)
        else:
            self.notify(f"{path.name} and .txt", timeout=3)


def _not_taken(stem: str) -> Path:
    """`stem`.svg, with a number behind it where there is a picture of this second already."""
    names = itertools.chain([stem], (f"{stem}-{number}" for number in itertools.count(2)))
    return next(path for name in names if not (path := Path(f"{name}.svg")).exists())


def screen_text(screen: Screen[Any]) -> str:
    """What is on the screen, as lines of text."""
    strips = screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in strips) + "\n"


def run_app(
    session: Session,
    *,
    title: str | None = None,
    output_path: str | None = None,
    compared: Sequence[tuple[str, Session]] = (),
    begin: View = BEGIN,
    keys: Mapping[str, str | Sequence[str]] = NO_KEYS,
) -> int:
    """Show `session` (see `NtstopApp`) until the user quits, and return the exit code.

    That is 0, or 128 + the signal that ended it. `keys`: `[keys]` of the configuration. Raises `SettingsError`.
    """
    keymap = keymap_of(keys)
    for name in ("COLUMNS", "LINES"):
        # Exported by some shells and wrappers, and wrong from the first resize on; the terminal itself knows.
        os.environ.pop(name, None)
    app = NtstopApp(session, title=title, output_path=output_path, compared=compared, begin=begin, keymap=keymap)
    try:
        app.run(mouse=begin.mouse)
    finally:
        terminal.release(app)
        app.workspace.close()
    return app.return_code or 0
