"""The screen begins as the user's configuration has it."""

from __future__ import annotations

import pytest

from ntstop.session import Session
from ntstop.settings import View
from ntstop.text import use_bytes
from ntstop.tui.app import NtstopApp
from ntstop.tui.styles.paint import palette_of
from ntstop.tui.themes import ANSI
from tests.tui import feed
from tests.tui.opened import Screen


@pytest.mark.parametrize(("name", "theme"), [("dark", "ntstop-dark"), ("light", "ntstop-light"), ("ansi", ANSI)])
def test_theme_and_smoothing_are_those_of_the_configuration(
    name: str, theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)
    app = NtstopApp(Session(feed.FedSource()), begin=View(theme=name, smoothing="strong"))  # type: ignore[arg-type]
    assert app.theme == theme and app.workspace.view.smoothing == "strong"


@pytest.mark.parametrize(("units", "memory"), [("binary", "61.0 of 80.0 GiB"), ("decimal", "65.5 of 85.9 GB")])
async def test_palette_refresh_and_units_are_those_of_the_configuration(
    units: str, memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)
    try:
        with Session(feed.FedSource(feed.training(300, gpu=True))) as session:
            assert session.wait_for_end(30)
            app = NtstopApp(session, begin=View(palette="cividis", refresh=0.1, units=units))  # type: ignore[arg-type]
            async with app.run_test(size=(120, 40)) as pilot:
                screen = Screen(pilot)
                await screen.until(lambda: screen.app.run_screen is not None, "a screen")
                await screen.shows(memory)
                assert palette_of(app).name == "dark cividis" and app.refresh_seconds == 0.1
    finally:
        use_bytes("binary")


def test_a_terminal_of_16_colours_gets_them_whatever_the_configuration_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NTSTOP_COLORS", "16")
    assert NtstopApp(Session(feed.FedSource()), begin=View(theme="light")).theme == ANSI
