"""The chart as a widget: it shows the picture, repaints only what changed, and tells where the pointer is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from textual import events
from textual.app import App, ComposeResult
from textual.geometry import Region

from ntstop.tui.raster.ink import Ink
from ntstop.tui.raster.picture import Picture
from ntstop.tui.raster.spec import ChartSpec, Colours, Marker, Span, Trace
from ntstop.tui.raster.stack import Part, StackSpec
from ntstop.tui.styles.paint import choose, strip_of, style_of
from ntstop.tui.styles.palette import DARK, LIGHT, MONO, SIXTEEN
from ntstop.tui.widgets.chart import Chart
from ntstop.tui.widgets.heatmap import HeatMap, HeatSpec
from ntstop.tui.widgets.phasebar import PhaseBar
from ntstop.tui.widgets.pointer import CursorMoved, Dragged, Zoomed

X = np.arange(1000.0)
Y = 2 + np.exp(-X / 300) + np.sin(X)


def spec(count: int = 800, **more: Any) -> ChartSpec:
    return ChartSpec(traces=(Trace(X[:count], Y[:count], label="train"),), x_range=(0.0, 1000.0), **more)


class CountingChart(Chart):
    """Remembers what it asked to be repainted."""

    def __init__(self) -> None:
        super().__init__()
        self.repaints: list[tuple[Region, ...]] = []

    def refresh(self, *regions: Region, **options: Any) -> Any:
        if getattr(self, "repaints", None) is not None:
            self.repaints.append(regions)
        return super().refresh(*regions, **options)


class Shown(App[None]):
    """One chart on a screen, and what it was told by the pointer."""

    def __init__(self, ascii_only: bool = False, few_colours: bool = False) -> None:
        super().__init__()
        self.ascii_only, self.few_colours = ascii_only, few_colours
        self.chart = CountingChart()
        self.moves: list[float] = []
        self.drags: list[tuple[float, float]] = []
        self.zooms: list[tuple[float, float]] = []

    def compose(self) -> ComposeResult:
        yield self.chart

    def on_cursor_moved(self, event: CursorMoved) -> None:
        self.moves.append(event.x)

    def on_dragged(self, event: Dragged) -> None:
        self.drags.append((event.was, event.now))

    def on_zoomed(self, event: Zoomed) -> None:
        self.zooms.append((event.x, event.factor))


def screen_rows(app: App[None]) -> list[str]:
    """The text on the screen, row by row."""
    width, height = app.size
    strips = app.screen._compositor.render_strips()
    return [strip.text.ljust(width) for strip in strips[:height]]


async def test_the_screen_shows_what_the_rasterizer_drew_and_only_it() -> None:
    app = Shown()
    async with app.run_test(size=(80, 24)) as pilot:
        app.chart.show(spec())
        await pilot.pause()
        assert screen_rows(app) == app.chart.picture.text().split("\n")
        assert app.chart.picture.codes.shape == (24, 80)
        assert "train" in screen_rows(app)[0]


async def test_an_unchanged_picture_repaints_nothing_and_a_grown_curve_only_its_cells() -> None:
    app = Shown()
    async with app.run_test(size=(80, 24)) as pilot:
        app.chart.show(spec(800))
        await pilot.pause()
        app.chart.repaints.clear()
        app.chart.show(spec(800))
        assert app.chart.repaints == []
        app.chart.show(spec(801))
        regions = [region for call in app.chart.repaints for region in call]
        assert regions and sum(region.area for region in regions) < 80
        await pilot.pause()
        assert screen_rows(app) == app.chart.picture.text().split("\n")


async def test_what_was_shown_before_the_first_layout_appears_with_it_and_a_new_size_is_drawn_anew() -> None:
    app = Shown()
    app.chart.show(spec())
    async with app.run_test(size=(60, 15)) as pilot:
        await pilot.pause()
        assert screen_rows(app) == app.chart.picture.text().split("\n")
        await pilot.resize_terminal(100, 30)
        await pilot.pause()
        assert app.chart.picture.codes.shape == (30, 100)
        assert screen_rows(app) == app.chart.picture.text().split("\n")
        assert app.chart.dot_columns == 2 * (100 - ChartSpec().gutter)


async def test_a_click_tells_the_step_and_none_beside_the_plot() -> None:
    app = Shown()
    async with app.run_test(size=(80, 24)) as pilot:
        app.chart.show(spec())
        await pilot.pause()
        await pilot.click(Chart, offset=(ChartSpec().gutter, 5))
        await pilot.click(Chart, offset=(79, 5))
        await pilot.click(Chart, offset=(2, 5))
        await pilot.pause()
        assert app.moves == [0.0, 1000.0]


async def test_the_wheel_tells_around_which_step_and_a_drag_from_where_to_where_and_is_no_click() -> None:
    app = Shown()
    async with app.run_test(size=(80, 24)) as pilot:
        app.chart.show(spec())
        await pilot.pause()
        left = ChartSpec().gutter
        mouse(app, events.MouseScrollUp, left, 5, button=0)
        mouse(app, events.MouseScrollDown, 79, 5, button=0)
        mouse(app, events.MouseScrollDown, 1, 5, button=0)
        mouse(app, events.MouseDown, 79, 5)
        mouse(app, events.MouseMove, 60, 5)
        mouse(app, events.MouseMove, left, 5)
        mouse(app, events.MouseUp, left, 5)
        await pilot.pause()
        assert [x for x, _ in app.zooms] == [0.0, 1000.0] and app.zooms[0][1] < 1 < app.zooms[1][1]
        assert app.drags[0][0] == 1000.0 and app.drags[-1][1] == 0.0 and app.drags[0][1] == app.drags[1][0]
        assert not app.moves


def mouse(app: App[Any], kind: type[events.MouseEvent], x: int, y: int, *, button: int = 1) -> None:
    """What a terminal tells of the mouse."""
    app.post_message(kind(None, x, y, 0, 0, button, False, False, False, x, y))


async def test_an_ascii_terminal_gets_ascii_only() -> None:
    app = Shown(ascii_only=True)
    async with app.run_test(size=(80, 24)) as pilot:
        app.chart.show(spec(cursor_x=400.0, markers=(Marker(100.0, "critical"),)))
        await pilot.pause()
        assert "".join(screen_rows(app)).isascii()


async def test_without_colours_a_span_is_drawn_with_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = Shown()
    async with app.run_test(size=(80, 24)) as pilot:
        app.chart.show(spec(spans=(Span(900.0, 950.0),)))
        await pilot.pause()
        assert app.chart.colours is Colours.NONE
        assert "░" in "".join(screen_rows(app))


async def test_sixteen_colours_use_named_ones_only() -> None:
    app = Shown(few_colours=True)
    async with app.run_test(size=(80, 24)) as pilot:
        app.chart.show(spec())
        await pilot.pause()
        assert app.chart.colours is Colours.FEW
        inks = {style_of(SIXTEEN.name, ink, Ink.NONE).color for ink in Ink}
        assert all(colour is None or colour.number is not None for colour in inks)


async def test_a_light_theme_repaints_in_its_own_palette() -> None:
    app = Shown()
    async with app.run_test(size=(80, 24)) as pilot:
        app.chart.show(spec())
        await pilot.pause()
        assert app.chart._palette is DARK
        app.theme = "textual-light"
        await pilot.pause()
        app.chart.redraw()
        assert app.chart._palette is LIGHT


async def test_a_terminal_too_small_for_anything_does_not_fail() -> None:
    app = Shown()
    async with app.run_test(size=(3, 1)) as pilot:
        app.chart.show(spec())
        await pilot.pause()
        assert app.chart.picture.codes.shape == (1, 3)


async def test_the_other_pictures_follow_the_same_steps() -> None:
    class Panes(App[None]):
        CSS = "HeatMap, PhaseBar { height: 12; }"

        def compose(self) -> ComposeResult:
            yield HeatMap()
            yield PhaseBar()

    app = Panes()
    async with app.run_test(size=(80, 24)) as pilot:
        heat, bar = app.query_one(HeatMap), app.query_one(PhaseBar)
        heat.show(HeatSpec(names=("a", "b"), x=X[::10], values=np.full((2, 100), 5e-3), x_range=(0.0, 1000.0)))
        bar.show(StackSpec(parts=(Part("data", X, np.ones(1000)),), x_range=(0.0, 1000.0)))
        await pilot.pause()
        rows = screen_rows(app)
        assert rows[:12] == heat.picture.text().split("\n") and rows[12:] == bar.picture.text().split("\n")
        assert heat.step_at(79) == bar.step_at(79) == 1000.0
        assert heat.layers_at(2) == [1]
        assert heat.columns > 60 and bar.columns > 60


def test_every_ink_has_a_look_in_every_palette_that_has_colours() -> None:
    shown = set(Ink) - {Ink.NONE, Ink.BACKDROP, Ink.CURSOR}
    assert shown - set(DARK.inks) == set()
    assert shown - set(LIGHT.inks) == set()
    assert set(DARK.grounds) == set(LIGHT.grounds)


def test_a_palette_is_chosen_by_what_the_terminal_has() -> None:
    assert choose(colours=1 << 24, dark=True, no_color=False) is DARK
    assert choose(colours=256, dark=False, no_color=False) is LIGHT
    assert choose(colours=16, dark=True, no_color=False) is SIXTEEN
    assert choose(colours=0, dark=True, no_color=False) is MONO
    assert choose(colours=1 << 24, dark=True, no_color=True) is MONO


def test_a_strip_is_as_wide_as_its_picture_also_with_wide_characters() -> None:
    picture = Picture.blank(8, 1)
    picture.write(0, 1, "损失")
    from rich.style import Style

    strip = strip_of(picture, 0, DARK, Style())
    assert strip.cell_length == sum(segment.cell_length for segment in strip) == 8
