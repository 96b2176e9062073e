"""What the options of a call and the user's configuration say together, checked before anything is opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import click

from ntstop.commands.target import LogOptions, log_options
from ntstop.diagnosis.engine import Engine
from ntstop.diagnosis.rules import load
from ntstop.diagnosis.thresholds import Thresholds
from ntstop.settings import Settings, SettingsError, read_settings, settings_path
from ntstop.sources.base import SourceError
from ntstop.sources.logs.roles import Roles


@dataclass(frozen=True, slots=True)
class Options:
    """How a run is to be read and judged."""

    log: LogOptions = field(default_factory=LogOptions)
    thresholds: dict[str, float] = field(default_factory=dict)
    """Of the configuration and of the call, by name; the call wins."""

    def engine(self) -> Engine:
        """A diagnosis that judges so."""
        return Engine(thresholds=self.thresholds, roles=Roles(self.log.roles))


def gather(roles: Sequence[str] = (), pattern: str | None = None, thresholds: Sequence[str] = ()) -> Options:
    """The values of the options, and what stands in the configuration.

    Raises `click.ClickException` with one line where one of them makes no sense.
    """
    try:
        settings = read_settings()
        log = log_options(roles, pattern)
    except (SettingsError, SourceError) as error:
        raise click.ClickException(str(error)) from error
    return Options(log, checked(settings, thresholds).told)


def checked(settings: Settings, options: Sequence[str] = ()) -> Thresholds:
    """The thresholds in force: those of `--threshold NAME=VALUE` before those of the configuration.

    Raises `click.ClickException` with one line, which says where the wrong one stands.
    """
    if settings.thresholds or options:
        load()
    try:
        Thresholds(settings.thresholds)
    except ValueError as error:
        raise click.ClickException(f"{settings_path()}: {error}") from error
    told = dict(settings.thresholds)
    for option in options:
        name, _, value = option.partition("=")
        try:
            number = float(value)
        except ValueError:
            raise click.ClickException(
                f"--threshold {option}: KIND.NAME=VALUE is meant, with a number; `ntstop explain KIND` lists the names"
            ) from None
        try:
            Thresholds({name.strip(): number})
        except ValueError as error:
            raise click.ClickException(f"--threshold {option}: {error}") from error
        told[name.strip()] = number
    return Thresholds(told)
