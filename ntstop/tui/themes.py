"""The grounds that the palettes were chosen for, as textual themes."""

from __future__ import annotations

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
ANSI = "ansi-dark"
"""Textual's own theme in the terminal's 16 colours, on its own ground."""
THEMES = (DARK, LIGHT)
