"""`ntstop run`: start a command with the probe in it, beside a viewer with `--watch`."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from ntstop import launch
from ntstop.commands import screen
from ntstop_probe import registry


def run_command(
    command: Sequence[str], *, watch: bool, title: str | None, run: str | None, notify: str | None = None
) -> int:
    """Become `command`, or with `watch` run it beside the viewer and return its exit code.

    Exits 127 when there is no such command and 126 when it cannot be executed, as a shell does.
    """
    if run is not None and run != registry.safe_name(run):
        raise click.UsageError(f"--name {run!r}: only letters, digits, dot, dash and underscore, at most 100")
    if notify is not None and not watch:
        raise click.UsageError("--notify needs --watch: without a viewer this process becomes the command")
    try:
        if watch and not screen.can_draw():
            click.echo("ntstop: no terminal to watch in; running the command alone", err=True)
            watch = False
        if watch:
            from ntstop.commands.options import gather

            options = gather(notify=notify)
            run = run or os.environ.get("NTSTOP_RUN_ID") or launch.fresh_run_id(command)
        environment = launch.launch_environment(os.environ, command, run, title)
        if watch:
            return launch.run_watched(command, environment, lambda folder: screen.view(folder, options))
        launch.become(command, environment)
    except launch.LaunchError as error:
        click.echo(f"ntstop: {error}", err=True)
        return error.code
    return 0
