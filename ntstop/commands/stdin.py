"""`ntstop -`: watch what comes through standard input."""

from __future__ import annotations

import os
import sys

import click

from ntstop.commands import screen
from ntstop.commands.options import Options
from ntstop.commands.target import LogOptions
from ntstop.sources.base import Source, SourceError
from ntstop.sources.logs.printed import TextSource
from ntstop.sources.pipe import Pipe
from ntstop.sources.stdio import RelaySource, content

_TERMINAL = "/dev/tty"


def open_stdin(options: Options) -> int:
    """Show the run whose frames, or printed numbers, come through standard input; returns the viewer's exit code.

    The screen appears with the first byte, for an ssh may ask for a password before. The keyboard is the terminal.
    """
    try:
        source = stdin_source(options.log)
    except SourceError as error:
        raise click.ClickException(str(error)) from error
    if sys.stdout.isatty():
        _take_keyboard()
    return screen.view(source, options)


def stdin_source(log: LogOptions) -> Source:
    """What comes through standard input, by its first bytes. Raises `SourceError` where nothing does."""
    if sys.stdin is None or sys.stdin.isatty():
        raise SourceError(
            "nothing is piped in; try: ssh -n NODE ntstop relay RUN | ntstop -, or python train.py 2>&1 | ntstop -"
        )
    pipe = Pipe(os.dup(sys.stdin.fileno()))
    kind = content(pipe, pattern=log.pattern is not None)
    if kind == "nothing":
        raise SourceError("nothing came through the pipe; it takes: ssh -n NODE ntstop relay RUN | ntstop -")
    return RelaySource(pipe) if kind == "frames" else TextSource(pipe, log.roles, log.pattern)


def _take_keyboard() -> None:
    """Let standard input be the terminal: who draws looks for keys there. Left as it is where there is no terminal."""
    try:
        terminal = os.open(_TERMINAL, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return
    os.dup2(terminal, sys.stdin.fileno())
    os.close(terminal)
