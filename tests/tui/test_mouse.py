"""The mouse: clicks, the wheel and drags do what keys do, and the terminal gets its own mouse back, however it ends."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import psutil
import pytest
from textual import events
from textual.geometry import Offset
from textual.widget import Widget

from ntstop.tui.screens.card import CardScreen
from ntstop.tui.screens.help import HelpScreen
from ntstop.tui.widgets.findings import FindingRows
from ntstop.tui.widgets.hints import Hints
from ntstop.tui.widgets.layer_table import LayerTable
from ntstop.tui.widgets.layers import LayersPane
from ntstop.tui.widgets.loss import LossPane
from ntstop.tui.widgets.manifest import ManifestPane
from tests.helpers import wait_until
from tests.monitor.test_cli import recorded
from tests.tmux import Terminal
from tests.tui import feed
from tests.tui.opened import NARROW, Fed, opened

NTSTOP = str(Path(sys.executable).with_name("ntstop"))
DOWN, UP, MOVE = events.MouseDown, events.MouseUp, events.MouseMove
FEWER, MORE = events.MouseScrollUp, events.MouseScrollDown


async def mouse(screen: Fed, widget: Widget, place: tuple[int, int], *kinds: type[events.MouseEvent]) -> None:
    """What a terminal tells when this happens at a place of a widget."""
    x, y = widget.content_region.offset + Offset(*place)
    for kind in kinds:
        button = 0 if kind in (FEWER, MORE) else 1
        screen.app.post_message(kind(None, x, y, 0, 0, button, False, False, False, x, y))
    await screen.pilot.pause()


async def test_a_click_on_a_chart_puts_the_cursor_there_on_all_panes() -> None:
    async with opened(feed.training(1000)) as screen:
        await screen.shows("loss", "worst")
        chart = screen.overview.query_one(LossPane).chart
        await mouse(screen, chart, (40, 4), DOWN, UP)
        assert screen.app.workspace.view.cursor == round(chart.step_at(40) or 0) > 0
        await screen.shows(f"step {screen.app.workspace.view.cursor}")


async def test_the_wheel_zooms_around_the_pointer_and_a_drag_moves_the_axis_without_a_click() -> None:
    async with opened(feed.training(2000)) as screen:
        await screen.shows("loss", "worst")
        view, chart = screen.app.workspace.view, screen.overview.query_one(LossPane).chart
        under = chart.step_at(40) or 0
        await mouse(screen, chart, (40, 4), *[FEWER] * 6)
        assert view.span is not None and view.span < 700
        assert abs((chart.step_at(40) or 0) - under) < view.span / 20, "what is under the pointer stays there"
        assert view.cursor is None
        left, right = view.window
        await mouse(screen, chart, (40, 4), DOWN)
        await mouse(screen, chart, (50, 4), MOVE)
        await mouse(screen, chart, (60, 4), MOVE, UP)
        assert view.window[0] < left and view.window[1] - view.window[0] == pytest.approx(right - left)
        assert abs((chart.step_at(60) or 0) - under) < view.span / 20, "it went along with the pointer"
        assert view.cursor is None
        await mouse(screen, chart, (40, 4), *[MORE] * 12)
        assert view.span is None, "out again to the whole run"


async def test_the_wheel_at_the_tail_keeps_following_it() -> None:
    async with opened(feed.training(2000)) as screen:
        await screen.shows("loss", "worst")
        view, chart = screen.app.workspace.view, screen.overview.query_one(LossPane).chart
        await mouse(screen, chart, (chart.size.width - 1, 4), *[FEWER] * 4)
        assert view.span is not None and view.end is None


async def test_a_finding_is_chosen_by_a_click_and_opened_by_two() -> None:
    async with opened(feed.training(400, nan_from=300)) as screen:
        await screen.shows("nonfinite-loss", "unreproducible")
        rows = screen.overview.query_one(FindingRows)
        await mouse(screen, rows, (12, 1), DOWN, UP)
        chosen = screen.app.workspace.finding
        assert chosen is not None and chosen.kind == rows.findings[1].kind
        await mouse(screen, rows, (12, 1), DOWN, UP)
        await screen.until(lambda: isinstance(screen.app.screen, CardScreen), "the card")
        await screen.pilot.press("escape")
        await mouse(screen, rows, (12, 1), FEWER)
        assert screen.app.workspace.place == 0


async def test_rows_of_tables_and_lines_are_chosen_and_scrolled() -> None:
    async with opened(feed.training(1000), NARROW) as screen:
        await screen.go("3")
        table = screen.shown.query_one(LayerTable)
        await screen.until(lambda: len(table.rows) == 12, "12 layers")
        await mouse(screen, table.table, (5, 3), DOWN, UP)
        assert table.place == table.first_in_view + 2 and table.has_focus
        await mouse(screen, table.table, (5, 3), MORE)
        assert table.place == 5
        await mouse(screen, table.table, (5, 0), DOWN, UP)
        assert table.place == 5, "the heading is no row"
        await screen.go("8")
        lines = screen.shown.query_one(ManifestPane).lines
        await screen.shows("contract")
        await mouse(screen, lines, (5, 3), MORE)
        assert lines.top > 0


async def test_a_row_of_the_map_is_chosen_where_it_is_clicked() -> None:
    async with opened(feed.training(1000)) as screen:
        await screen.shows("worst")
        pane = screen.overview.query_one(LayersPane)
        row = next(row for row in range(pane.heat.size.height) if pane.heat.layers_at(row))
        await mouse(screen, pane.heat, (2, row), DOWN, UP)
        assert pane.heat.row == row


async def test_the_keys_at_the_bottom_can_be_clicked() -> None:
    async with opened(feed.training(1000)) as screen:
        await screen.shows("loss", "quit")
        hints, view = screen.shown.query_one(Hints), screen.app.workspace.view

        def at(text: str) -> tuple[int, int]:
            return screen.text.splitlines()[-1].index(text) - hints.content_region.x, 0

        await mouse(screen, hints, at("y log"), DOWN, UP)
        assert view.log
        await mouse(screen, hints, at("- zoom"), DOWN, UP)
        assert view.span is None, "- is not +"
        await mouse(screen, hints, at("+- zoom"), DOWN, UP)
        assert view.span is not None
        await mouse(screen, hints, at("help"), DOWN, UP)
        await screen.until(lambda: isinstance(screen.app.screen, HelpScreen), "the help")
        await screen.pilot.press("escape")
        await mouse(screen, hints, at("8 screens"), DOWN, UP)
        await screen.until(lambda: screen.shown.TITLE == "run", "the last screen")


# --- in a real terminal -----------------------------------------------------------------------------------------------


BUTTONS = "0101"


def modes(terminal: Terminal) -> str:
    """What the terminal tells of the mouse, and whether all moves, those with a button, clicks."""
    return terminal.format("#{mouse_all_flag}#{mouse_button_flag}#{mouse_standard_flag}#{mouse_sgr_flag}")


def viewer_of(terminal: Terminal) -> psutil.Process:
    """The process that reads the keyboard of this terminal."""
    return psutil.Process(int(terminal.format("#{pane_pid}"))).children()[0]


@pytest.mark.parametrize(
    ("ending", "code"), [("q", 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129), ("C-c", 0)], ids=str
)
def test_the_mouse_is_the_terminal_s_own_again_after_every_end(ending: str | signal.Signals, code: int) -> None:
    recorded()
    with Terminal([NTSTOP, "run-1"]) as terminal:
        terminal.wait_for("findings")
        wait_until(lambda: modes(terminal) == BUTTONS, 20, what="buttons and drags are told, and no more")
        if isinstance(ending, signal.Signals):
            viewer_of(terminal).send_signal(ending)
        else:
            terminal.keys(ending)
        terminal.wait_for(f"left with {code}")
        assert modes(terminal) == "0000"


def test_suspended_the_mouse_is_given_back_and_taken_again_with_fg() -> None:
    recorded()
    with Terminal([NTSTOP, "run-1"]) as terminal:
        terminal.wait_for("findings")
        wait_until(lambda: modes(terminal) != "0000", 20, what="the mouse is taken")
        viewer = viewer_of(terminal)
        terminal.keys("C-z")
        wait_until(lambda: viewer.status() == psutil.STATUS_STOPPED, 20, what="the viewer is stopped")
        wait_until(lambda: modes(terminal) == "0000", 20, what="it is given back")
        viewer.send_signal(signal.SIGCONT)
        wait_until(lambda: modes(terminal) != "0000", 20, what="it is taken again")
        terminal.keys("q")
        terminal.wait_for("left with 0")
        assert modes(terminal) == "0000"


def test_reports_of_a_real_terminal_are_understood_and_without_the_mouse_none_are_asked_for(tmp_path: Path) -> None:
    recorded()
    with Terminal([NTSTOP, "run-1"], columns=80, rows=24) as terminal:
        terminal.wait_for("findings")
        terminal.keys("-l", "\x1b[<0;40;5M\x1b[<0;40;5m")
        terminal.wait_for("step 2")
    config = tmp_path / "ntstop.toml"
    config.write_text("[view]\nmouse = false\n")
    with Terminal([NTSTOP, "run-1"], NTSTOP_CONFIG=str(config)) as terminal:
        terminal.wait_for("findings")
        terminal.keys("?")
        terminal.wait_for("quit the viewer")
        assert modes(terminal) == "0000"
