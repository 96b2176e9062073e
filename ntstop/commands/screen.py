"""Shows a run on whatever is there: the app on a terminal, text anywhere else."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from ntstop.launch import OUTPUT_FILE


def can_draw() -> bool:
    """Whether standard input and output are a terminal that the app can draw on."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")


def view(folder: Path) -> int:
    """Show the run in `folder`, which may come into being later, and return the exit code of the viewer.

    Where the job's own output is kept beside the recording, the screen names the file. Without a terminal an overview
    is printed once.
    """
    from ntstop.session import Session
    from ntstop.sources.base import SourceError

    try:
        if not can_draw():
            from ntstop.plain import overview

            session = Session(folder)
            session.load()
            click.echo(overview(session))
            return 0
        output = folder / OUTPUT_FILE
        with Session(folder) as session:
            # Imported while the session reads: both take their time.
            from ntstop.tui.app import run_app

            return run_app(session, output_path=str(output) if output.exists() else None)
    except SourceError as error:
        raise click.ClickException(str(error)) from error
