"""`export`: a target, read twice, into a file or folder."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ntstop.diagnosis.report import RunInfo, report
from ntstop.session import Session
from ntstop.sources.base import Source
from ntstop.sources.live import RunSource
from ntstop.sources.logs.source import LogSource
from ntstop_probe.registry import safe_name

from .parquet import require
from .place import check, named
from .rows import Rows, findings
from .sinks import STDOUT, Format, is_folder, sinks
from .survey import Survey
from .tables import TABLES, Table

_EXTENSION = re.compile(r"\.(csv|tsv|jsonl?|log|txt|wandb)$")


@dataclass(slots=True)
class Exported:
    """What has been written."""

    path: Path
    rows: dict[Table, int] = field(default_factory=lambda: dict.fromkeys(TABLES, 0))
    lost: int = 0
    """Frames or lines that could not be read."""


def export(
    make: Callable[[], Path | Source],
    form: Format,
    path: Path | None,
    tables: tuple[Table, ...],
    *,
    force: bool = False,
) -> Exported:
    """Write the `tables` (empty: all) of what `make` gives, which is called twice.

    One table of CSV or Parquet, and JSON lines, are a file; all else is a folder. `path` None: beside, named after the
    run; for JSON lines standard output, which is also `-`. Raises `SourceError`, `Occupied`, `ImportError` (no pyarrow)
    and `OSError`.
    """
    if form == "parquet":
        require()
    first = make()
    if path is None:
        path = STDOUT if form == "jsonl" else Path(_default(first, form, tables))
    if path != STDOUT:
        check(path, folder=is_folder(form, tables), force=force)
    survey = Survey()
    session = Session(first, survey)
    session.load()
    run = _run_of(session)
    process = session.state.primary
    started = process.hello.wall if process and process.hello else 0.0
    wanted = tables or TABLES
    exported = Exported(path, dict.fromkeys(wanted, 0), session.status.corrupt + session.status.skipped)
    with named(path), sinks(form, path, tables, survey.columns, run, started, force=force) as found:
        for block in Rows(_again(make()), survey.records, set(wanted)):
            found[block.table].write(block)
            exported.rows[block.table] += block.count
        if "findings" in wanted:
            block = findings(report(run.id, run, survey.engine).findings)
            found["findings"].write(block)
            exported.rows["findings"] += block.count
        for sink in {id(sink): sink for sink in found.values()}.values():
            sink.close()
    return exported


def _again(source: Path | Source) -> Source:
    """The source for the second reading, which waits for nothing."""
    if isinstance(source, Path):
        return RunSource(source, live=False)
    if isinstance(source, LogSource):
        source.live = False
    return source


def _default(source: Path | Source, form: Format, tables: tuple[Table, ...]) -> str:
    name = source.name if isinstance(source, Path) else getattr(getattr(source, "target", None), "name", "log")
    name = safe_name(_EXTENSION.sub("", name))
    return f"{name}-{tables[0]}.{form}" if not is_folder(form, tables) else f"{name}-{form}"


def _run_of(session: Session) -> RunInfo:
    entry, process = session.entry, session.state.primary
    hello = process.hello if process else None
    return RunInfo(
        id=(entry.id if entry else session.state.run) or "run",
        state=entry.state if entry else "stale",
        source="log" if session.is_log else "recording",
        ranks=len(session.state.ranks),
        host=hello.host or None if hello else None,
        title=hello.title if hello else None,
    )
