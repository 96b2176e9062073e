"""What a target on the command line is: a run of ntstop, or the logs of another tool."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ntstop.sources import runs
from ntstop.sources.base import Source, SourceError
from ntstop.sources.logs.discover import log_targets
from ntstop.sources.logs.roles import Role, parse
from ntstop.sources.logs.source import LogSource, LogTarget
from ntstop.sources.segments import is_process_folder
from ntstop_probe import registry


@dataclass(frozen=True, slots=True)
class LogOptions:
    """How logs are to be read, as the user says it."""

    roles: dict[str, Role] = field(default_factory=dict)
    pattern: re.Pattern[str] | None = None


def log_options(roles: Sequence[str], pattern: str | None) -> LogOptions:
    """The values of `--role` and `--pattern`. Raises `SourceError` with one line where they make no sense."""
    try:
        table = parse(tuple(roles))
        compiled = re.compile(pattern) if pattern is not None else None
    except ValueError as error:
        raise SourceError(str(error)) from error
    except (re.error, OverflowError, RecursionError) as error:
        raise SourceError(f"--pattern is no regular expression: {error}") from error
    if compiled is not None and not compiled.groupindex:
        raise SourceError("--pattern names nothing: (?P<step>\\d+) and (?P<loss>\\S+) say which part is what")
    return LogOptions(table, compiled)


def logs_of(target: str, options: LogOptions) -> list[LogTarget]:
    """The logs that `target` means, the newest first; empty where it means a run of ntstop.

    Raises `SourceError` where it names a file or folder with neither.
    """
    path = Path(os.path.expanduser(target))  # a home folder that nobody has stays as it is written
    if not target or not os.path.lexists(path) or _is_run(target, path):
        if options.pattern:
            raise SourceError(f"{target} is no text that another tool has printed: --pattern is for those")
        return []
    return log_targets(path, options.pattern)


def sources_of(target: str, options: LogOptions) -> list[Path | Source]:
    """What is to be read of `target`: the folder of a run, or each of the logs. Raises `SourceError`."""
    logs = logs_of(target, options)
    return [LogSource(log, options.roles) for log in logs] if logs else [runs.resolve(target).path]


def _is_run(target: str, path: Path) -> bool:
    """A run folder; or a word that begins the id of a run, before a file of that name."""
    if path.is_dir():
        try:
            if is_process_folder(path) or any(is_process_folder(child) for child in path.iterdir() if child.is_dir()):
                return True
        except OSError:
            return True
    if "/" in target:
        return False
    try:
        return any(name.startswith(target) for name in os.listdir(registry.runs_folder()))
    except OSError:
        return False
