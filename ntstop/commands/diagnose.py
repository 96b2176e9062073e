"""`ntstop diagnose`: what is wrong with runs, for programs (JSON), for a file (Markdown) or for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from ntstop import text
from ntstop.commands.options import Options
from ntstop.commands.stdin import stdin_source
from ntstop.commands.target import sources_of
from ntstop.diagnosis import card
from ntstop.diagnosis.report import Report, RunInfo, exit_code, line, report, reproduction_of
from ntstop.session import Session
from ntstop.sources.base import Source, SourceError
from ntstop.sources.logs.source import LogSource

UNREADABLE = 2


def diagnose(targets: Sequence[str], style: str, options: Options) -> int:
    """Print a report of each target in the `style` "text", "json" or "md"; of a folder with several logs, of each.

    Returns 0 with nothing at warning or above, 1 with something, 2 when a target cannot be read: that one gets a line
    on stderr, and the others are reported all the same.
    """
    worst = 0
    for target in targets:
        try:
            found = [stdin_source(options.log)] if target == "-" else sources_of(target, options.log)
        except (SourceError, OSError) as error:
            worst = _unreadable(target, error)
            continue
        for source in found:
            worst = max(worst, _diagnose(_name(target, source), source, style, options))
    return worst


def _diagnose(target: str, source: Path | Source, style: str, options: Options) -> int:
    try:
        session = _read(source, options)
    except (SourceError, OSError) as error:
        return _unreadable(target, error)
    click.echo(render(target, session, style))
    for what in unread(session):
        click.echo(f"ntstop: {text.safe(target)}: {what}", err=True)
    for what in session.engine.failed.values():
        click.echo(f"ntstop: {text.safe(target)}: {text.safe(what)}", err=True)
    options.notify_now(session)
    return exit_code(session.findings)


def _unreadable(target: str, error: SourceError | OSError) -> int:
    """Say why a target cannot be read; the exit code of that."""
    why = f"{target}: {error.strerror or error}" if isinstance(error, OSError) else str(error)
    click.echo(f"ntstop: {text.safe(why)}", err=True)
    return UNREADABLE


def unread(session: Session) -> list[str]:
    """What the report cannot know of, a line each."""
    status = session.status
    damaged = f"damaged stretches left out: {status.corrupt:,}" if status.corrupt else ""
    missing = f"missing frames: {status.gaps:,}" if status.gaps else ""
    return [part for part in (damaged, missing, status.removed, status.problem) if part]


def _name(target: str, source: Path | Source) -> str:
    return str(source.target.path) if isinstance(source, LogSource) else target


def run_info(session: Session) -> RunInfo:
    """The `run` of a report, from what has been read and from the evidence on its processes."""
    entry, process = session.entry, session.state.primary
    processes = session.state.processes.values()
    firsts = [p.first_x for p in processes if p.first_x is not None]
    lasts = [p.x for p in processes if p.first_x is not None]
    return RunInfo(
        id=entry.id if entry else session.state.run,
        state=entry.state if entry else "stale",
        source="log" if session.is_log else "live" if entry and entry.active else "recording",
        ranks=len(session.state.ranks),
        first_step=int(min(firsts)) if firsts else None,
        last_step=int(max(lasts)) if lasts else None,
        host=process.hello.host if process and process.hello else None,
        title=process.hello.title if process and process.hello else None,
        attempt=process.attempt if process else None,
        remarks=session.remarks,
    )


def _read(source: Path | Source, options: Options) -> Session:
    session = Session(source, renew=options.engine)
    session.load()
    if session.error:
        raise SourceError(session.error)
    status = session.status
    if not session.state.processes and (status.problem or status.corrupt):
        # Nothing found in what could not be read is not "nothing found".
        raise SourceError(status.problem or f"{session.path}: nothing in it can be read, all of it is damaged")
    return session


def render(target: str, session: Session, style: str) -> str:
    """The report in the `style` "text", "json" or "md", without the end of its last line."""
    found = report(target, run_info(session), session.engine)
    if style == "json":
        return found.to_json().decode()
    if style == "md":
        return _markdown(found, session)
    lines = [text.safe(line(finding, session.kept.note(finding.id))) for finding in session.findings]
    remarks = [text.safe(f"  {remark}") for remark in found.run.remarks]
    return "\n".join([_headline(found), *remarks, *(lines or ["nothing found"])])


def _markdown(found: Report, session: Session) -> str:
    cards = [
        card.markdown(
            finding,
            reproduction_of(session.engine, finding),
            session.kept.note(finding.id),
            has_ended=session.has_ended,
        )
        for finding in session.findings
    ]
    # Made for a file, but printed: names of phases, layers and files come from the job. One line at a time, because
    # `safe` makes one line of what it gets.
    lines = "\n".join(cards).split("\n") if cards else ["Nothing found.", ""]
    remarks = [f"*{text.safe(remark)}*\n" for remark in found.run.remarks]
    return "\n".join([f"# {_headline(found)}", "", *remarks, *map(text.safe, lines)])


def _headline(found: Report) -> str:
    run = found.run
    steps = "no steps" if run.last_step is None else f"steps {run.first_step:,} to {run.last_step:,}"
    return text.safe(f"{run.id}{f' ({run.title})' if run.title else ''}: {run.state}, {steps}")
