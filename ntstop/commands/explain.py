"""`ntstop explain`: what kinds of findings mean, and the numbers they are judged by; and what keys there are."""

from __future__ import annotations

import shutil

import click

from ntstop.commands.thresholds import checked, mistakes
from ntstop.diagnosis.explanation import WIDTH, explain, families
from ntstop.settings import SettingsError, read_settings, settings_path


def explain_kind(name: str | None) -> int:
    """Print what a kind means, or without a name the list of all; "keys": what keys can be moved. The exit code."""
    if name == "keys":
        from ntstop.tui.keymap import keymap_of, listing

        try:
            keymap = keymap_of(read_settings().keys)
        except SettingsError as error:
            click.echo(listing())
            raise click.ClickException("\n".join(mistakes(error))) from error
        click.echo(listing(keymap))
        return 0
    width = min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns - 1)
    if name is None:
        click.echo(families(width))
        return 0
    try:
        click.echo(explain(name, checked(read_settings()), str(settings_path()), width))
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    return 0
