"""`ntstop` and `ntstop RUN`: find the run that is meant, and show it."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from ntstop import text
from ntstop.commands import screen
from ntstop.commands.ls import table
from ntstop.commands.options import Options
from ntstop.commands.target import logs_of, sources_of
from ntstop.sources import runs
from ntstop.sources.base import Source, SourceError
from ntstop.sources.logs.source import LogSource, LogTarget

MOST_RUNS = 8
"""As many colours and signs as there are."""
_SHOWN_LOGS = 50
_POLL = 0.5
"""Seconds from one look for a live run to the next."""


def open_target(target: str, options: Options) -> int:
    """Open the run with this id, beginning of an id, or folder, or a log; returns the viewer's exit code."""
    try:
        logs = logs_of(target, options.log)
        if logs:
            log = logs[0] if len(logs) == 1 else _choose_log(logs)
            return screen.view(LogSource(log, options.log.roles), options)
        entry = runs.resolve(target)
    except SourceError as error:
        raise click.ClickException(str(error)) from error
    return screen.view(entry.path, options)


def compare_targets(targets: Sequence[str], options: Options) -> int:
    """Open several runs or logs on one axis, the first as what the others are compared with."""
    try:
        if "-" in targets:
            raise SourceError("what comes through a pipe is opened alone: ntstop -")
        found = [(target, source) for target in targets for source in sources_of(target, options.log)]
    except SourceError as error:
        raise click.ClickException(str(error)) from error
    if len(found) > MOST_RUNS:
        raise click.ClickException(f"{len(found)} runs are meant, and {MOST_RUNS} at most are told apart on one axis")
    names = _short_names([(target, source) for target, source in found])
    return screen.compare(list(zip(names, (source for _, source in found), strict=True)), options)


def _short_names(found: Sequence[tuple[str, Path | Source]]) -> list[str]:
    """What the runs are called on the screen: the end of what was typed, more of it where two have the same."""
    paths = [
        source if isinstance(source, Path) else source.target.path if isinstance(source, LogSource) else Path(target)
        for target, source in found
    ]
    for parts in range(1, 5):
        names = ["/".join(path.parts[-parts:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [f"{name} ({number})" for number, name in enumerate((path.name for path in paths), 1)]


def open_newest(options: Options) -> int:
    """Open the live run of this user; asks which when there are several, and waits for one when there is none."""
    try:
        entries = runs.active_runs()
        if not entries and options.once:
            raise SourceError("no run is live; `ntstop ls` lists those that have ended, `ntstop --once RUN` prints one")
        entries = entries or _wait_for_runs()
    except SourceError as error:
        raise click.ClickException(str(error)) from error
    entry = entries[0] if len(entries) == 1 else _choose(entries, ask=not options.once)
    return screen.view(entry.path, options)


def _wait_for_runs() -> list[runs.RunEntry]:
    ended = [entry for entry in runs.scan() if entry.processes]
    last = f" `ntstop {ended[0].id}` opens the newest that has ended." if ended else ""
    click.echo(f"No run is live.{last}", err=True)
    click.echo("Waiting for one: `ntstop run -- CMD`, or ntstop_probe.watch(); ctrl-c leaves.", err=True)
    while not (entries := runs.active_runs()):
        time.sleep(_POLL)
    return entries


def _choose(entries: list[runs.RunEntry], *, ask: bool) -> runs.RunEntry:
    """Let the user take one of several live runs, newest first; without a keyboard the newest is taken."""
    if not ask or not sys.stdin.isatty():
        click.echo(f"ntstop: {len(entries)} runs are live; this is the newest, {entries[0].id}", err=True)
        return entries[0]
    header, *lines = table(entries)
    click.echo(f"    {header}", err=True)
    for number, line in enumerate(lines, 1):
        click.echo(f"{number:>3} {line}", err=True)
    number = click.prompt("which", default=1, type=click.IntRange(1, len(entries)), err=True)
    return entries[number - 1]


def _choose_log(logs: list[LogTarget]) -> LogTarget:
    """Let the user take one of several logs, newest first; without a keyboard the newest is taken."""
    if not sys.stdin.isatty():
        click.echo(f"ntstop: {len(logs)} logs are there; this is the newest, {logs[0].path}", err=True)
        return logs[0]
    now = time.time()
    for number, log in enumerate(logs[:_SHOWN_LOGS], 1):
        click.echo(
            f"{number:>3} {text.duration(max(0.0, now - log.modified)):>7} ago  {text.safe(str(log.path))}", err=True
        )
    number = click.prompt("which", default=1, type=click.IntRange(1, min(len(logs), _SHOWN_LOGS)), err=True)
    return logs[number - 1]
