"""The screen begins as the user's configuration has it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ntstop.session import Session
from ntstop.settings import View
from ntstop.text import use_bytes
from ntstop.tui.app import NtstopApp
from ntstop.tui.styles.paint import palette_of
from ntstop.tui.terminal import is_ascii_only
from ntstop.tui.themes import ANSI, ANSI_LIGHT, first_theme, next_theme
from tests.tui import feed
from tests.tui.opened import Screen, opened


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
    monkeypatch.delenv("COLORFGBG", raising=False)
    assert NtstopApp(Session(feed.FedSource()), begin=View(theme="dark")).theme == ANSI
    assert NtstopApp(Session(feed.FedSource()), begin=View(theme="light")).theme == ANSI_LIGHT


def test_the_terminal_s_own_colours_are_those_for_its_ground_where_it_tells_that() -> None:
    for told, theme in (("0;15", ANSI_LIGHT), ("0;default;7", ANSI_LIGHT), ("15;0", ANSI), ("", ANSI), ("x", ANSI)):
        assert first_theme("ansi", few_colours=False, environ={"COLORFGBG": told}) == theme
    assert first_theme("dark", few_colours=False, environ={"COLORFGBG": "0;15"}) == "ntstop-dark"


def test_themes_go_round_and_where_there_are_few_colours_none_of_them_needs_more() -> None:
    for few, count in ((False, 4), (True, 2)):
        seen = [first_theme("dark", few_colours=few, environ={})]
        while (theme := next_theme(seen[-1], few_colours=few)) != seen[0]:
            seen.append(theme)
        assert len(seen) == count and (not few or seen == [ANSI, ANSI_LIGHT])


@pytest.mark.parametrize(
    ("environ", "is_ascii"),
    [
        ({"TERM": "xterm-256color"}, False),
        ({"TERM": "linux"}, True),
        ({"TERM": "vt220"}, True),
        ({"TERM": "linux", "NTSTOP_ASCII": "0"}, False),
        ({"TERM": "xterm", "NTSTOP_ASCII": "1"}, True),
        ({"TERM": "screen", "TMUX": "x", "LANG": "en_US.UTF-8"}, False),
        ({"TERM": "screen", "TMUX": "x", "LC_ALL": "C", "LANG": "en_US.UTF-8"}, True),
        ({"TERM": "screen", "TMUX": "x", "LC_CTYPE": "C.UTF-8"}, True),
        ({"TERM": "screen", "LC_ALL": "C"}, False),
    ],
)
def test_where_only_ascii_can_be_seen_nothing_else_is_drawn(
    environ: dict[str, str], is_ascii: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmux = tmp_path / "tmux"
    tmux.write_text("#!/bin/sh\necho 0\n")
    tmux.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert is_ascii_only(environ) == is_ascii


def test_a_tmux_that_cannot_be_asked_is_taken_for_one_of_today(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert not is_ascii_only({"TERM": "screen", "TMUX": "x"})


async def test_under_a_list_the_run_can_still_be_read_in_the_terminals_own_colours() -> None:
    async with opened(feed.training(400)) as screen:
        await screen.shows("layers grad")
        screen.app.theme = ANSI
        await screen.pilot.press("ctrl+p")
        await screen.shows("words of what is to be done", "gpt-small", "esc back")
