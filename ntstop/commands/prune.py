"""`ntstop rm` and `ntstop prune`: recordings that are not needed any more. Never a run that may still be going on."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence

import click

from ntstop import text
from ntstop.commands.ls import table
from ntstop.removal import delete, last_activity, size_of, why_not
from ntstop.sources import runs
from ntstop.sources.base import SourceError
from ntstop.sources.runs import RunEntry

_AGES = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SIZES = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def remove(targets: Sequence[str], *, yes: bool) -> int:
    """Delete the runs that are meant; returns the exit code. All are looked at before the first is touched."""
    try:
        entries = [runs.resolve(target) for target in targets]
    except SourceError as error:
        raise click.ClickException(str(error)) from error
    for entry in entries:
        if reason := why_not(entry):
            raise click.ClickException(f"{entry.id} is not removed: {reason}")
    return _delete(list({entry.path: entry for entry in entries}.values()), yes=yes)


def prune(older_than: str | None, larger_than: str | None, *, yes: bool) -> int:
    """Delete runs of the last activity longer ago than `older_than` ("30d"), then the oldest until all are no larger
    than `larger_than` ("5GB") together; returns the exit code."""
    if older_than is None and larger_than is None:
        raise click.ClickException("what is to go? --older-than 30d, --larger-than 5GB, or both")
    age = None if older_than is None else seconds_of(older_than)
    most = None if larger_than is None else bytes_of(larger_than)
    try:
        entries = runs.scan()
    except SourceError as error:
        raise click.ClickException(str(error)) from error
    sizes = {entry.path: size_of(entry.path) for entry in entries}
    total = sum(sizes.values())
    chosen = []
    for entry in reversed(entries):
        # `scan` has the latest activity first.
        is_old = age is not None and time.time() - last_activity(entry) > age
        if (is_old or (most is not None and total > most)) and not why_not(entry):
            chosen.append(entry)
            total -= sizes[entry.path]
    if most is not None and total > most:
        click.echo(f"ntstop: {text.size(total)} stay, which may not be removed", err=True)
    if not chosen:
        click.echo("nothing to remove")
        return 0
    return _delete(chosen, yes=yes)


def _delete(entries: list[RunEntry], *, yes: bool) -> int:
    header, *lines = table(entries)
    sizes = [size_of(entry.path) for entry in entries]
    click.echo(f"{'SIZE':>9}  {header}")
    for size, line in zip(sizes, lines, strict=True):
        click.echo(f"{text.size(size):>9}  {line}")
    what = f"{len(entries)} run{'s' if len(entries) > 1 else ''}, {text.size(sum(sizes))}"
    if not yes:
        if not sys.stdin.isatty():
            raise click.ClickException(f"nothing is removed: nobody to ask about {what}; --yes answers")
        if not click.confirm(f"remove {what}?"):
            return 1
    for entry in entries:
        try:
            if reason := delete(entry.path):
                click.echo(f"ntstop: {entry.id} stays: {reason}", err=True)
        except SourceError as error:
            click.echo(f"ntstop: {error}", err=True)
    click.echo(f"removed {sum(not entry.path.exists() for entry in entries)} of {what}")
    return 0


def seconds_of(age: str) -> float:
    """ "30d", "12h", "2w" in seconds. Raises `click.ClickException`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", age.strip().lower())
    if not found:
        raise click.ClickException(f"--older-than {age!r}: a number with s, m, h, d or w, such as 30d")
    return float(found[1]) * _AGES[found[2]]


def bytes_of(size: str) -> float:
    """ "5GB" (10⁹ each), "500MiB" (2²⁰ each) in bytes. Raises `click.ClickException`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", size.strip().lower())
    if not found:
        raise click.ClickException(f"--larger-than {size!r}: a size such as 5GB or 500MB")
    return float(found[1]) * float((1024 if found[3] else 1000) ** _SIZES[found[2]])
