"""`ntstop export`: a run or a log as files for other programs."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ntstop import text
from ntstop.commands.target import LogOptions, sources_of
from ntstop.export.place import Occupied
from ntstop.export.sinks import STDOUT, Format, is_folder
from ntstop.export.tables import Table
from ntstop.export.target import Exported, export
from ntstop.sources.base import Source, SourceError
from ntstop.sources.logs.source import LogSource

_LISTED = 5


def export_target(
    target: str,
    form: Format,
    output: str | None,
    tables: tuple[Table, ...],
    options: LogOptions | None = None,
    *,
    force: bool = False,
) -> int:
    """Write the run or log `target`, and say on stderr what was written. Returns the exit code."""
    if form == "parquet" and output == "-":
        raise click.ClickException("Parquet is written to files, not to standard output: -o PATH")
    tables = tuple(dict.fromkeys(tables))
    if output == "-" and is_folder(form, tables):
        raise click.ClickException("this writes several files: -o FOLDER, or --table steps for one table of CSV")
    try:
        found = sources_of(target, options or LogOptions())
        if len(found) > 1:
            raise click.ClickException(_several(target, found))
        exported = export(
            lambda: sources_of(target, options or LogOptions())[0],
            form, Path(output) if output is not None else None, tables, force=force,
        )  # fmt: skip
    except (SourceError, Occupied, ImportError) as error:
        raise click.ClickException(str(error)) from error
    _say(exported)
    return 0


def _several(target: str, found: list[Path | Source]) -> str:
    paths = [text.safe(str(source.target.path)) for source in found if isinstance(source, LogSource)]
    more = f" and {len(paths) - _LISTED} more" if len(paths) > _LISTED else ""
    return f"{target} has {len(paths)} logs; export one of them: {', '.join(paths[:_LISTED])}{more}"


def _say(exported: Exported) -> None:
    rows = ", ".join(f"{count:,} {table}" for table, count in exported.rows.items())
    where = "" if exported.path == STDOUT else f" to {exported.path}"
    click.echo(f"wrote {rows}{where}", err=True)
    if exported.lost:
        click.echo(f"ntstop: {exported.lost:,} damaged frames or lines are not in it", err=True)
    sys.stdout.flush()
