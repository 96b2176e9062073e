"""Shows a run on whatever is there: the app on a terminal, text anywhere else."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ntstop.launch import OUTPUT_FILE
from ntstop.settings import SettingsError
from ntstop.sources.base import Source, SourceError

if TYPE_CHECKING:
    from ntstop.commands.options import Options
    from ntstop.session import Session

FIRST_LOOK = 0.06
"""Seconds that the reading has, at most, before the screen is built."""
_NAP = 0.003
WHILE_BUILT = 0.5
"""Seconds that this takes."""
PIPED = (120, 40)
"""Columns and rows of what is printed where no terminal and no COLUMNS and LINES say it."""


def can_draw() -> bool:
    """Whether standard input and output are a terminal that the app can draw on."""
    return sys.stdin.isatty() and sys.stdout.isatty() and _can_paint()


def view(target: Path | Source, options: Options) -> int:
    """Show the run in a folder, which may come into being later, or of a source; returns the viewer's exit code.

    Where the job's own output is kept beside the recording, the screen names the file. Without a terminal an overview
    is printed once.
    """
    from ntstop.session import Session

    try:
        if options.once or not can_draw():
            session = Session(target, renew=options.engine)
            session.load()
            click.echo(_as_text(session, options))
            options.notify_now(session)
            return 0
        output = target / OUTPUT_FILE if isinstance(target, Path) else None
        with Session(target, renew=options.engine) as session, options.notifying(session):
            _let_it_begin(session)
            from ntstop.tui.app import run_app

            kept = str(output) if output and output.exists() else None
            return run_app(session, output_path=kept, begin=options.view, keys=options.keys)
    except (SettingsError, SourceError) as error:
        raise click.ClickException(str(error)) from error


def _let_it_begin(session: Session) -> None:
    """Let the session read what it can in a moment, all of a short run, then nothing for a while: until the screen is
    there each would hold up the other, for Python computes one thing at a time."""
    end = time.monotonic() + FIRST_LOOK
    while time.monotonic() < end and not session.status.complete:
        time.sleep(_NAP)
    session.lock.ask_for_quiet(WHILE_BUILT)


def _as_text(session: Session, options: Options) -> str:
    """The overview as the screen shows it where it was asked for once, else in a line for each thing."""
    if not options.once:
        from ntstop.plain import overview

        return overview(session)
    from ntstop.tui.once import overview_rows

    return overview_rows(session, options.view, shutil.get_terminal_size(PIPED), colours=has_colours())


def has_colours() -> bool:
    """Whether colours may be printed: on a terminal that has some, unless NO_COLOR is set."""
    return sys.stdout.isatty() and _can_paint() and not os.environ.get("NO_COLOR")


def _can_paint() -> bool:
    """Whether the terminal understands more than characters."""
    return os.environ.get("TERM", "") not in ("", "dumb", "unknown")


def compare(runs: Sequence[tuple[str, Path | Source]], options: Options) -> int:
    """Show several runs, by the names they are to have on the screen; without a terminal a table is printed once."""
    from ntstop.session import Session

    try:
        sessions = [(name, Session(target, renew=options.engine)) for name, target in runs]
        if options.once or not can_draw():
            from ntstop.compare import comparison

            for _, session in sessions:
                session.load()
            click.echo(comparison(sessions))
            return 0
        with contextlib.ExitStack() as stack:
            for _, session in sessions:
                stack.enter_context(session)
            from ntstop.tui.app import run_app

            return run_app(sessions[0][1], compared=sessions, begin=options.view, keys=options.keys)
    except (SettingsError, SourceError) as error:
        raise click.ClickException(str(error)) from error
