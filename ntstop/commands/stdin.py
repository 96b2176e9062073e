"""`ntstop -`: watch what comes through standard input."""

from __future__ import annotations

import os
import sys

import click

from ntstop.commands import screen
from ntstop.sources.pipe import Pipe
from ntstop.sources.stdio import RelaySource, content

_TERMINAL = "/dev/tty"


def open_stdin() -> int:
    """Show the run whose frames come through standard input; returns the viewer's exit code.

    The screen appears with the first byte, for an ssh may ask for a password before. The keyboard is the terminal.
    """
    if sys.stdin is None or sys.stdin.isatty():
        raise click.ClickException("nothing is piped in; try: ssh -n NODE ntstop relay RUN | ntstop -")
    pipe = Pipe(os.dup(sys.stdin.fileno()))
    kind = content(pipe)
    if kind != "frames":
        what = "nothing came through the pipe" if kind == "nothing" else "no frames in what came through the pipe"
        raise click.ClickException(f"{what}; it takes: ssh -n NODE ntstop relay RUN | ntstop -")
    if sys.stdout.isatty():
        _take_keyboard()
    return screen.view(RelaySource(pipe))


def _take_keyboard() -> None:
    """Let standard input be the terminal: who draws looks for keys there. Left as it is where there is no terminal."""
    try:
        terminal = os.open(_TERMINAL, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return
    os.dup2(terminal, sys.stdin.fileno())
    os.close(terminal)
