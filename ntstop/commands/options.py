"""What the options of a call and the user's configuration say together, checked before anything is opened."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import click

from ntstop.commands.target import LogOptions, log_options
from ntstop.commands.thresholds import checked, mistakes
from ntstop.diagnosis.engine import Engine
from ntstop.notify import Notifier, Told
from ntstop.session import Session
from ntstop.settings import SettingsError, View, command_words, read_settings
from ntstop.sources.base import SourceError
from ntstop.sources.logs.roles import Roles
from ntstop.text import safe


@dataclass(frozen=True, slots=True)
class Options:
    """How a run is to be read and judged."""

    log: LogOptions = field(default_factory=LogOptions)
    thresholds: dict[str, float] = field(default_factory=dict)
    """Of the configuration and of the call, by name; the call wins."""

    notify: Told | None = None
    """What a viewer runs for new findings."""
    notify_once: bool = False
    """Whether it was asked for in this call: then a call that only prints tells too."""

    view: View = field(default_factory=View)
    """How the screen begins."""
    keys: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    """The user's own keys."""
    once: bool = False
    """Whether the overview is to be printed once, as the screen would show it, instead of opening that."""

    def engine(self) -> Engine:
        """A diagnosis that judges so."""
        return Engine(thresholds=self.thresholds, roles=Roles(self.log.roles))

    def notifying(self, session: Session) -> contextlib.AbstractContextManager[object]:
        """While it lasts, news of `session` are told, where anybody is to be told."""
        return contextlib.nullcontext() if self.notify is None else Notifier(session, self.notify)

    def notify_now(self, session: Session) -> None:
        """Tell of what was found, when that was asked for; waits for each command, and says what failed."""
        if self.notify is not None and self.notify_once:
            Notifier(session, self.notify).tell()
            if session.notice:
                click.echo(f"ntstop: {safe(session.notice)}", err=True)


def gather(
    roles: Sequence[str] = (),
    pattern: str | None = None,
    thresholds: Sequence[str] = (),
    notify: str | None = None,
    *,
    once: bool = False,
) -> Options:
    """The values of the options, and what stands in the configuration.

    Raises `click.ClickException` with one line where one of them makes no sense.
    """
    try:
        settings = read_settings()
        log = log_options(roles, pattern)
    except SettingsError as error:
        raise click.ClickException("\n".join(mistakes(error))) from error
    except SourceError as error:
        raise click.ClickException(str(error)) from error
    command = settings.notify.command if notify is None else notify
    told = None if command is None else Told(command, settings.notify.timeout)
    if notify is not None:
        try:
            command_words(notify)
        except ValueError as error:
            raise click.ClickException(f"--notify: {error}") from error
    return Options(
        log, checked(settings, thresholds).told, told, notify is not None, settings.view, settings.keys, once
    )
