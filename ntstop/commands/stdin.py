"""`ntstop -`: watch what comes through standard input."""

from __future__ import annotations

import os
import sys

import click

from ntstop.commands import screen
from ntstop.commands.options import Options
from ntstop.sources.logs.printed import TextSource
from ntstop.sources.pipe import Pipe
from ntstop.sources.stdio import RelaySource, content

_TERMINAL = "/dev/tty"


def open_stdin(options: Options) -> int:
    """Show the run whose frames, or printed numbers, come through standard input; returns the viewer's exit code.

    The screen appears with the first byte, for an ssh may ask for a password before. The keyboard is the terminal.
    """
    if sys.stdin is None or sys.stdin.isatty():
        raise click.ClickException(
            "nothing is piped in; try: ssh -n NODE ntstop relay RUN | ntstop -, or python train.py 2>&1 | ntstop -"
        )
    pipe = Pipe(os.dup(sys.stdin.fileno()))
    kind = content(pipe, pattern=options.log.pattern is not None)
    if kind == "nothing":
        raise click.ClickException("nothing came through the pipe; it takes: ssh -n NODE ntstop relay RUN | ntstop -")
    log = options.log
    source = RelaySource(pipe) if kind == "frames" else TextSource(pipe, log.roles, log.pattern)
    if sys.stdout.isatty():
        _take_keyboard()
    return screen.view(source, options)


def _take_keyboard() -> None:
    """Let standard input be the terminal: who draws looks for keys there. Left as it is where there is no terminal."""
    try:
        terminal = os.open(_TERMINAL, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return
    os.dup2(terminal, sys.stdin.fileno())
    os.close(terminal)
