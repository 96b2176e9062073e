"""`ntstop ls`: the runs of this user, as a table or as JSON. Loads neither textual nor numpy."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click
import msgspec

from ntstop import text
from ntstop.sources import runs
from ntstop.sources.base import SourceError

SHOWN = 20
"""Runs that are listed without `--all`; every active one is."""


class RunLine(msgspec.Struct):
    """One line of `ls --json`. Times are Unix seconds, `age` seconds since the start; null: not known."""

    id: str
    state: str
    why: str
    title: str | None
    ranks: int
    attempt: int
    first_step: int | None
    last_step: int | None
    last_loss: float | None
    rate: float | None
    started: float | None
    age: float | None
    last_activity: float | None
    path: str
    problem: str


def list_runs(*, as_json: bool, show_all: bool) -> int:
    """Print the runs, the latest activity first; returns the exit code."""
    try:
        entries = runs.scan()
    except SourceError as error:
        raise click.ClickException(str(error)) from error
    shown = entries if show_all or as_json else [entry for i, entry in enumerate(entries) if i < SHOWN or entry.active]
    if as_json:
        for entry in shown:
            click.echo(msgspec.json.encode(_line(entry)))
        return 0
    if not entries:
        click.echo("No run has been recorded yet: start one with `ntstop run -- CMD`, or see `ntstop demo`.", err=True)
        return 0
    for line in table(shown):
        click.echo(line)
    if len(shown) < len(entries):
        click.echo(f"and {len(entries) - len(shown)} older: `ntstop ls --all`", err=True)
    return 0


def table(entries: Sequence[runs.RunEntry]) -> list[str]:
    """A header and one line a run, columns aligned by terminal cells."""
    now = time.time()
    rows = [("STATE", "RUN", "STEP", "LOSS", "RATE", "AGE", "TITLE")]
    rows += [
        (
            entry.state,
            text.clip(entry.id, 48),
            text.count(entry.last_step),
            text.number(entry.last_loss),
            text.rate(entry.rate),
            text.duration(None if entry.started is None else now - entry.started),
            text.safe(entry.problem or entry.title or ""),
        )
        for entry in entries
    ]
    widths = [max(text.cell_width(row[column]) for row in rows) for column in range(6)]
    right_aligned = (False, False, True, True, True, True)
    return [
        "  ".join(
            [text.fit(cell, width, right=right) for cell, width, right in zip(row, widths, right_aligned, strict=False)]
            + [row[-1]]
        ).rstrip()
        for row in rows
    ]


def _line(entry: runs.RunEntry) -> RunLine:
    return RunLine(
        id=entry.id,
        state=entry.state,
        why=_encodable(entry.why),
        title=entry.title,
        ranks=entry.ranks,
        attempt=entry.attempt,
        first_step=entry.first_step,
        last_step=entry.last_step,
        last_loss=entry.last_loss,
        rate=entry.rate,
        started=entry.started,
        age=None if entry.started is None else time.time() - entry.started,
        last_activity=entry.last_activity,
        path=_encodable(str(entry.path)),
        problem=_encodable(entry.problem),
    )


def _encodable(text: str) -> str:
    """A path may hold any bytes; JSON may not."""
    return text.encode("utf-8", "replace").decode()
