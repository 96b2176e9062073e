"""The thresholds in force: the defaults, those of the configuration, and those of the call."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ntstop.diagnosis.rules import load
from ntstop.diagnosis.thresholds import Thresholds
from ntstop.settings import Settings, SettingsError, settings_path


def checked(settings: Settings, options: Sequence[str] = ()) -> Thresholds:
    """The thresholds in force: those of `--threshold NAME=VALUE` before those of the configuration.

    Raises `click.ClickException` with one line, which says where the wrong one stands.
    """
    if settings.thresholds or options:
        load()
    try:
        Thresholds(settings.thresholds)
    except ValueError as error:
        wrong = mistakes(SettingsError("", rest=settings))[1:]
        raise click.ClickException("\n".join(wrong) or f"{settings_path()}: {error}") from error
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


def mistakes(error: SettingsError) -> list[str]:
    """All that is wrong in the configuration, a line each: beside those of `error` the thresholds and the keys."""
    found = str(error).split("\n")
    if error.rest is None:
        return found
    from ntstop.tui.keymap import keymap_of

    load()
    for name, value in error.rest.thresholds.items():
        try:
            Thresholds({name: value})
        except ValueError as wrong:
            found.append(f"{settings_path()}: {wrong}")
    try:
        keymap_of(error.rest.keys)
    except SettingsError as wrong:
        found += str(wrong).split("\n")
    return found
