"""The terminal as a thing that can be small, poor, taken away or shut.

Textual leaves the screen in application mode on SIGTERM, its input thread spins when the terminal is gone and SIGHUP
was ignored (`nohup`), and it ends with a traceback on a byte that is no UTF-8: all are dealt with here.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from textual import events
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from .raster.alike import ascii_of
from .slim import Slimmer

SMALLEST = (40, 10)
"""Columns and rows below which nothing is drawn but a line of text."""
_MOUSE_MODES = (1000, 1002, 1006)
"""Buttons, moves while one is held, and coordinates in decimal digits (xterm, "Mouse Tracking")."""
_GONE_SECONDS = 3.0
"""How long an orderly exit may take once the terminal is gone."""


class Driver(LinuxDriver):
    """Textual's own, but whatever is typed or pasted, down to single bytes, does not end the app.

    Of the mouse it asks for buttons, wheel and drags, not for every move: those would cost bytes over ssh for nothing.
    What is written goes through a `Slimmer`, and to a terminal that draws ASCII only nothing else goes: frames, scroll
    bars and messages are textual's own.
    """

    _slimmer: Slimmer | None = None
    attend: Callable[[], None] | None = None
    """Called in the thread that reads the keys, for each of them, before anything else is done about it."""

    def process_message(self, message: Message) -> None:
        """Pass on what was read."""
        if self.attend is not None and isinstance(message, events.InputEvent):
            self.attend()
        super().process_message(message)

    def write(self, data: str) -> None:
        """Send `data` to the terminal."""
        if self._slimmer is None:
            self._slimmer = Slimmer()
        data = self._slimmer.slim(data)
        super().write(ascii_of(data) if getattr(self._app, "ascii_only", False) else data)

    def _enable_mouse_support(self) -> None:
        if self._mouse:
            self.write("".join(f"\x1b[?{mode}h" for mode in _MOUSE_MODES))
            self.flush()

    def _disable_mouse_support(self) -> None:
        if self._mouse:
            self.write("".join(f"\x1b[?{mode}l" for mode in reversed(_MOUSE_MODES)))
            self.flush()

    def _enable_mouse_pixels(self) -> None:
        """Cells are enough; textual would leave the terminal in this mode."""

    def run_input_thread(self) -> None:
        """Read until the app ends; a piece of input that cannot be understood is lost, and reading goes on."""
        while not self.exit_event.is_set():
            try:
                super().run_input_thread()
            except OSError:
                raise
            except Exception:
                # A pause, lest something that fails at once keeps a core busy.
                self.exit_event.wait(0.1)


def is_ascii_only(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether to draw with ASCII only: `NTSTOP_ASCII=1`, or a locale in which textual cannot write anything else."""
    if environ.get("NTSTOP_ASCII", "") not in ("", "0"):
        return True
    return sys.__stderr__ is not None and "utf" not in sys.__stderr__.encoding.lower()


def has_few_colours(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the terminal has 16 colours or fewer, by COLORTERM and TERM; NTSTOP_COLORS=16 says so by hand."""
    if "NTSTOP_COLORS" in environ:
        return environ["NTSTOP_COLORS"] == "16"
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return False
    term = environ.get("TERM", "")
    return not any(part in term for part in ("256", "kitty", "direct", "ghostty", "alacritty", "wezterm", "foot"))


def guard(app: App[Any]) -> None:
    """Make SIGTERM and SIGHUP leave the screen as it was, and end when the terminal is gone. Call once mounted."""
    if app.is_headless:
        return
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, _leave, app, 128 + number)
    app.set_interval(1.0, lambda: _check_terminal(app))


def attend(app: App[Any], call: Callable[[], None]) -> None:
    """Have `call` called, in another thread, whenever a key is pressed. Once mounted."""
    if isinstance(app._driver, Driver):
        app._driver.attend = call


def release(app: App[Any]) -> None:
    """Let go of the keyboard once the app has ended, however it ended.

    The thread that reads keys outlives an app that broke off, keeps the process alive, and spins on a closed terminal.
    """
    driver = app._driver
    if isinstance(driver, LinuxDriver):
        driver.exit_event.set()


def _leave(app: App[Any], code: int) -> None:
    if code == 128 + signal.SIGHUP:
        _end_soon(code)
    app.exit(return_code=code)


def _end_soon(code: int) -> None:
    """End the process if the app has not ended in a while."""
    end = threading.Timer(_GONE_SECONDS, os._exit, (code,))
    end.daemon = True
    end.start()


def _check_terminal(app: App[Any]) -> None:
    """End the app when its terminal no longer exists."""
    if sys.__stdin__ is None:
        return
    try:
        os.tcgetpgrp(sys.__stdin__.fileno())
    except OSError:
        # The driver writes its farewell to a terminal that is not there: it may hang there, so there is a deadline.
        _end_soon(128 + signal.SIGHUP)
        app.exit(return_code=128 + signal.SIGHUP)
