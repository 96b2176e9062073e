"""The terminal as a thing that can be small, poor, taken away or shut.

Textual leaves the screen in application mode on SIGTERM; its input thread spins when the terminal is gone and SIGHUP
was ignored (`nohup`), and ends with a traceback on a byte that is no UTF-8; where the thread that writes has ended, or
hangs, the app waits for it and takes no signal: all are dealt with here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TextIO, cast

from textual import events
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from .raster.alike import ascii_of
from .slim import Slimmer
from .typed import LONGEST_WAIT, Typed

SMALLEST = (40, 10)
"""Columns and rows below which nothing is drawn but a line of text."""
_MOUSE_MODES = (1000, 1002, 1006)
"""Buttons, moves while one is held, and coordinates in decimal digits (xterm, "Mouse Tracking")."""
_GONE_SECONDS = 5.0
"""How long an orderly exit may take once it was asked for by a signal, or the terminal is gone."""
_FAREWELL = b"\x1b[0m\x1b[?2004l\x1b[?7h\x1b[?1006l\x1b[?1002l\x1b[?1000l\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?1004l"
"""What textual writes when it ends: no paste marks, lines that wrap, no mouse, plain keys, the screen from before."""


class Driver(LinuxDriver):
    """Textual's own, but whatever is typed or pasted, down to single bytes, does not end the app.

    Of the mouse it asks for buttons, wheel and drags, not for every move: those would cost bytes over ssh for nothing.
    What is written goes through a `Slimmer`, and to a terminal that draws ASCII only nothing else goes: frames, scroll
    bars and messages are textual's own.
    """

    def __init__(self, app: App[Any], **options: Any) -> None:
        super().__init__(app, **options)
        if (file := canvas()) is not None:
            self._file = cast(Any, _Screen(file))

    _slimmer: Slimmer | None = None
    attend: Callable[[], None] | None = None
    """Called in the thread that reads the keys, for each of them, before anything else is done about it."""

    def start_application_mode(self) -> None:
        """Take the terminal in hand, ready from before on to give it back."""
        _heed_signals(self._app)
        super().start_application_mode()  # type: ignore[no-untyped-call]

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
        """Read until the app ends."""
        typed = Typed()
        while not self.exit_event.is_set():
            try:
                data = os.read(self.fileno, 4096) if select.select([self.fileno], [], [], typed.patience)[0] else None
            except OSError:
                data = b""
            if data == b"":
                # The terminal is gone, which is somebody else's to notice, or another's for now: not to be asked often.
                self.exit_event.wait(LONGEST_WAIT)
            for message in (*(typed.read(data) if data else ()), *typed.overdue()):
                self.process_message(message)


class _Screen:
    """What is drawn on, for the thread that writes.

    Were it to break off, as where the terminal is gone, the app would wait for it without end, deaf to signals.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        with contextlib.suppress(OSError):
            # Left so by some programs, and of no use here: half a picture would be written.
            os.set_blocking(file.fileno(), True)

    def write(self, text: str) -> None:
        """Write, while there is somebody to read it."""
        with contextlib.suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        """Send what was written."""
        with contextlib.suppress(OSError):
            self._file.flush()

    def fileno(self) -> int:
        """Of the terminal."""
        return self._file.fileno()


def canvas() -> TextIO | None:
    """The stream that is drawn on: standard error like textual, or standard output where that one goes elsewhere."""
    return next((file for file in (sys.__stderr__, sys.__stdout__) if file is not None and file.isatty()), None)


def is_ascii_only(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether to draw with ASCII only, by NTSTOP_ASCII (1 or 0); without it, where nothing else would be seen.

    That is: an encoding in which textual cannot write anything else, terminals whose fonts lack most of it, and a tmux
    that shows an underscore for it.
    """
    if told := environ.get("NTSTOP_ASCII"):
        return told != "0"
    file = canvas() or sys.__stdout__
    if file is not None and "utf" not in file.encoding.lower():
        return True
    return environ.get("TERM", "").startswith(("linux", "vt")) or ("TMUX" in environ and _is_narrow_tmux(environ))


def _is_narrow_tmux(environ: Mapping[str, str]) -> bool:
    """Whether we are in a tmux that was started where the locale says nothing of UTF-8, as in many containers."""
    # Python itself says C.UTF-8 where nothing was said.
    names = [environ.get("LC_ALL"), environ.get("LC_CTYPE", "").replace("C.UTF-8", ""), environ.get("LANG")]
    if "utf" in next((name for name in names if name), "").lower():
        return False
    try:
        asked = ["tmux", "display-message", "-p", "#{client_utf8}"]
        return subprocess.run(asked, capture_output=True, timeout=1.0, check=False).stdout.strip() == b"0"
    except (OSError, subprocess.SubprocessError):
        return False


def has_no_colours(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the terminal has none at all, by TERM."""
    return environ.get("TERM", "").startswith("vt")


def has_few_colours(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the terminal has 16 colours or fewer, by COLORTERM and TERM; NTSTOP_COLORS=16 says so by hand."""
    if "NTSTOP_COLORS" in environ:
        return environ["NTSTOP_COLORS"] == "16"
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return False
    term = environ.get("TERM", "")
    return not any(part in term for part in ("256", "kitty", "direct", "ghostty", "alacritty", "wezterm", "foot"))


def guard(app: App[Any]) -> None:
    """End when the terminal is gone. Call once mounted."""
    if not app.is_headless:
        app.set_interval(1.0, lambda: _check_terminal(app))


def _heed_signals(app: App[Any]) -> None:
    """Make SIGTERM and SIGHUP leave the screen as it was, however soon they come. The loop runs already."""
    loop = asyncio.get_running_loop()

    def leave(number: int, _frame: object) -> None:
        """Not by the loop alone: it may be waiting for a terminal that takes no more, over a line that hangs."""
        _end_soon(app, 128 + number)
        loop.call_soon_threadsafe(partial(app.exit, return_code=128 + number))

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)


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


def _end_soon(app: App[Any], code: int) -> None:
    """End the process if the app has not ended in a while."""
    end = threading.Timer(_GONE_SECONDS, _end, (app, code))
    end.daemon = True
    end.start()


def _end(app: App[Any], code: int) -> None:
    """Give the terminal back as far as it takes that, and end."""
    driver, file = app._driver, canvas()
    with contextlib.suppress(OSError, termios.error):
        if isinstance(driver, LinuxDriver) and driver.attrs_before is not None:
            termios.tcsetattr(driver.fileno, termios.TCSANOW, driver.attrs_before)
        if file is not None:
            os.set_blocking(file.fileno(), False)
            try:
                os.write(file.fileno(), _FAREWELL)
            finally:
                os.set_blocking(file.fileno(), True)
    os._exit(code)


def _check_terminal(app: App[Any]) -> None:
    """End the app when its terminal no longer exists."""
    if sys.__stdin__ is None:
        return
    try:
        os.tcgetpgrp(sys.__stdin__.fileno())
    except OSError:
        # The driver writes its farewell to a terminal that is not there: it may hang there, so there is a deadline.
        _end_soon(app, 128 + signal.SIGHUP)
        app.exit(return_code=128 + signal.SIGHUP)
