"""What is drawn, counted: a picture costs milliseconds, and a key is to be seen at once."""

from __future__ import annotations

from collections import Counter

import pytest
from textual.filter import ANSIToTruecolor

from ntstop.tui.raster.picture import Picture
from ntstop.tui.widgets.chart import Chart, PictureWidget
from ntstop.tui.widgets.grid import ChartGrid
from tests.tui import feed
from tests.tui.opened import Fed, opened


def charts_drawn(patch: pytest.MonkeyPatch) -> Counter[PictureWidget]:
    """How often each chart is drawn from now on."""
    drawn = Counter[PictureWidget]()

    def counting(kind: type[PictureWidget]) -> None:
        plain = kind.draw

        def draw(widget: PictureWidget, width: int, height: int) -> Picture:
            drawn[widget] += 1
            return plain(widget, width, height)

        patch.setattr(kind, "draw", draw)

    counting(Chart)
    counting(ChartGrid)
    return drawn


async def seen_before(screen: Fed) -> None:
    """Each of three screens has been looked at, and the picture stands."""
    await screen.pilot.press("space")
    for key in "241":
        await screen.go(key)
        await screen.pilot.pause(0.1)


async def test_a_screen_that_was_seen_before_draws_its_charts_once_when_it_is_gone_back_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened(feed.training(400)) as screen:
        await seen_before(screen)
        drawn = charts_drawn(monkeypatch)
        for key in "241":
            await screen.go(key)
            await screen.pilot.pause(0.1)
        assert drawn and set(drawn.values()) == {1}


async def test_another_theme_is_drawn_on_screens_that_were_not_on_top_when_it_was_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    async with opened(feed.training(400)) as screen:
        await seen_before(screen)
        grounds = []
        for _ in range(2):
            await screen.go("2")
            await screen.pilot.pause(0.1)
            grid = screen.shown.query_one(ChartGrid)
            grounds.append({segment.style.bgcolor for segment in grid.render_line(2) if segment.style})
            await screen.go("1", "t")
        assert grounds[0].isdisjoint(grounds[1])


async def test_a_theme_that_is_chosen_back_elsewhere_is_drawn_on_the_screen_that_had_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    async with opened(feed.training(400)) as screen:
        await seen_before(screen)

        def ground() -> object:
            return screen.shown.query_one(Chart).background_colors[1]

        await screen.pilot.pause(0.1)
        dark = ground()
        await screen.pilot.press("t")
        await screen.until(lambda: ground() != dark, "another ground")
        await screen.go("2")
        for _ in range(4):
            if screen.app.theme != "ntstop-dark":
                await screen.pilot.press("t")
        await screen.go("1")
        assert screen.app.theme == "ntstop-dark"
        await screen.until(lambda: ground() == dark, "the ground of the theme")


async def test_a_class_that_changes_no_colour_costs_no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(feed.training(400)) as screen:
        await seen_before(screen)
        drawn = charts_drawn(monkeypatch)
        screen.shown.add_class("-unheard-of")
        screen.shown.update_node_styles(animate=False)
        await screen.pilot.pause(0.1)
        assert not drawn


async def test_lines_are_not_copied_to_look_for_colours_of_the_terminals_own() -> None:
    async with opened(feed.training(400)) as screen:
        filters = screen.app.get_line_filters()
        assert not any(isinstance(each, ANSIToTruecolor) for each in filters)
