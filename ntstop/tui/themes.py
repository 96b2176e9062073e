"""The grounds that the palettes were chosen for, as textual themes."""

from __future__ import annotations

import os
from collections.abc import Mapping

from textual.theme import Theme

DARK = Theme(
    name="ntstop-dark",
    dark=True,
    primary="#58b4f0",
    secondary="#3a78c2",
    accent="#f0a03c",
    warning="#f5c04a",
    error="#ff6a55",
    success="#4fc4a0",
    foreground="#b4bcc8",
    background="#12161b",
    surface="#181d23",
    panel="#1d232b",
)
LIGHT = Theme(
    name="ntstop-light",
    dark=False,
    primary="#0a66b0",
    secondary="#1c5ca0",
    accent="#b85c00",
    warning="#8a6a00",
    error="#c02414",
    success="#00755a",
    foreground="#3a424e",
    background="#f8f9fb",
    surface="#f0f2f5",
    panel="#e6eaef",
)
ANSI, ANSI_LIGHT = "ansi-dark", "ansi-light"
"""Textual's own themes in the terminal's 16 colours, on its own ground, which may be either."""
THEMES = (DARK, LIGHT)


def first_theme(wanted: str, *, few_colours: bool, environ: Mapping[str, str] = os.environ) -> str:
    """The name of the theme to begin with; `wanted`: "dark", "light" or "ansi", which it is with few colours anyway."""
    if not few_colours and wanted != "ansi":
        return f"ntstop-{wanted}"
    # Set by some terminals: the colours of text and ground by number, of which 7 and 15 are white.
    is_light = environ.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15")
    return ANSI_LIGHT if is_light or wanted == "light" else ANSI


def next_theme(name: str, *, few_colours: bool) -> str:
    """The one after it: dark, light, the terminal's own colours on a dark and on a light ground."""
    names: list[str] = [*([] if few_colours else [theme.name for theme in THEMES]), ANSI, ANSI_LIGHT]
    return names[(names.index(name) + 1) % len(names)]
