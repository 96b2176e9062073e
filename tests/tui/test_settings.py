"""The screen begins as the user's configuration has it."""

from __future__ import annotations

import pytest

from ntstop.session import Session
from ntstop.settings import View
from ntstop.tui.app import NtstopApp
from ntstop.tui.themes import ANSI
from tests.tui import feed


@pytest.mark.parametrize(("name", "theme"), [("dark", "ntstop-dark"), ("light", "ntstop-light"), ("ansi", ANSI)])
def test_theme_and_smoothing_are_those_of_the_configuration(
    name: str, theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)
    app = NtstopApp(Session(feed.FedSource()), begin=View(theme=name, smoothing="strong"))  # type: ignore[arg-type]
    assert app.theme == theme and app.workspace.view.smoothing == "strong"


def test_a_terminal_of_16_colours_gets_them_whatever_the_configuration_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NTSTOP_COLORS", "16")
    assert NtstopApp(Session(feed.FedSource()), begin=View(theme="light")).theme == ANSI
