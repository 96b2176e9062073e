"""The curves screen: every series in a grid, found, ordered and enlarged by keys; several runs laid over each other."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence

import numpy as np
import pytest
from msgspec import structs

from ntstop.curves.buckets import Buckets
from ntstop.curves.series import Series
from ntstop.run.names import evaluation_losses, in_order
from ntstop.session import Session
from ntstop.text import cell_width, number
from ntstop.tui.app import NtstopApp
from ntstop.tui.screens.curves import CurvesScreen
from ntstop.tui.screens.help import HelpScreen
from ntstop.tui.widgets.grid import SMALLEST_CELL, geometry
from ntstop.tui.widgets.loss import LossPane
from ntstop_probe.wire import Record, Scalars, Steps, pack, unpack
from tests.tui import feed
from tests.tui.opened import Screen
from tests.tui.test_screens import SIZES


@pytest.fixture(autouse=True)
def a_good_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)


class Curves(Screen):
    """The curves screen of one run, or of several."""

    @property
    def curves(self) -> CurvesScreen:
        """The screen itself."""
        assert isinstance(self.shown, CurvesScreen)
        return self.shown

    @property
    def titles(self) -> list[str]:
        """Names of the charts that are to be seen."""
        return [cell.name for cell in self.curves.pane.grid.cells]

    async def press(self, *keys: str) -> None:
        """Press them, and let the screen draw."""
        await self.pilot.press(*keys)
        await self.pilot.pause()


@contextlib.asynccontextmanager
async def opened(*runs: Sequence[Record], size: tuple[int, int] = (120, 40)) -> AsyncIterator[Curves]:
    names = [f"run-{letter}" for letter in "abcdefgh"]
    with contextlib.ExitStack() as stack:
        sessions = [stack.enter_context(Session(feed.FedSource(records))) for records in runs]
        for session in sessions:
            assert session.wait_for_end(30)
        compared = list(zip(names, sessions, strict=False)) if len(sessions) > 1 else []
        async with NtstopApp(sessions[0], compared=compared).run_test(size=size, notifications=True) as pilot:
            screen = Curves(pilot)
            if not compared:
                await pilot.press("2")
            await screen.until(lambda: bool(isinstance(screen.shown, CurvesScreen) and screen.titles), "curves")
            yield screen


def worse(records: Sequence[Record], *, by: float = 0.5, slower: float = 2.0, tokens: int = 1000) -> list[Record]:
    """The same training with a higher loss, slower steps, and a count of tokens."""
    found: list[Record] = []
    for record in records:
        if isinstance(record, Steps):
            t = [slower * float(value or 0.0) for value in unpack(record.t)]
            loss = [float(value or 0.0) + by for value in unpack(record.losses["loss"])]
            count = [tokens * (record.ordinal + place + 1) for place in range(record.count)]
            packed, losses = pack("f8", t), pack("f8", loss)
            assert packed is not None and losses is not None
            record = structs.replace(record, t=packed, losses={"loss": losses}, tokens=pack("i8", count))
        found.append(record)
    return found


async def test_every_curve_has_a_chart_losses_first() -> None:
    async with opened(feed.training(2000)) as screen:
        await screen.shows("loss", "val/loss", "lr", "grad_norm", "step_time", "phase/data")
        assert screen.titles[:3] == ["loss", "val/loss", "lr"] and len(screen.titles) == 12
        await screen.shows("▸ loss")


@pytest.mark.parametrize("size", SIZES)
async def test_at_every_size_charts_are_whole_and_rows_fit(size: tuple[int, int]) -> None:
    async with opened(feed.training(600), size=size) as screen:
        assert all(cell_width(line) <= size[0] for line in screen.text.splitlines())
        shape = screen.curves.pane.grid.geometry
        for left, top, width, height in shape.boxes:
            assert width >= SMALLEST_CELL[0] and height >= SMALLEST_CELL[1]
            assert left + width <= size[0] and top + height <= size[1]


@pytest.mark.parametrize(("count", "columns"), [(1, 1), (2, 1), (3, 1), (4, 2), (30, 3)])
def test_a_few_curves_get_large_charts_and_many_small_ones(count: int, columns: int) -> None:
    shape = geometry(118, 37, count)
    assert shape.columns == columns
    assert len(shape.boxes) <= 12


async def test_arrows_go_through_all_curves_and_the_page_follows() -> None:
    async with opened(feed.training(600), size=(80, 24)) as screen:
        first = screen.titles
        await screen.press("down")
        await screen.shows("▸ val/loss")
        await screen.press("pagedown")
        assert screen.titles != first and screen.curves.pane.choice.chosen in screen.titles
        await screen.press("end")
        assert screen.titles[-1] == screen.curves.pane.shown[-1] == screen.curves.pane.choice.chosen
        await screen.press("home")
        assert screen.titles == first


async def test_slash_filters_while_it_is_typed_and_escape_goes_out_layer_by_layer() -> None:
    async with opened(feed.training(600)) as screen:
        await screen.press("slash", *"phase")
        await screen.until(lambda: all(name.startswith("phase/") for name in screen.titles), "only phases")
        await screen.shows("5 of ", "/phase")
        await screen.press("enter", "2", "enter")
        await screen.until(lambda: len(screen.titles) == 1, "one chart")
        await screen.shows("curves 1 of 5, /phase")
        await screen.press("escape")
        await screen.until(lambda: len(screen.titles) == 5, "the phases")
        await screen.press("escape")
        await screen.until(lambda: len(screen.titles) == 12, "no filter")


async def test_words_typed_anew_take_the_place_of_the_old_ones_and_escape_leaves_none() -> None:
    async with opened(feed.training(600)) as screen:
        await screen.press("slash", *"phase", "enter", "slash")
        await screen.until(lambda: len(screen.titles) == 5, "the phases, as long as nothing is typed")
        await screen.pilot.press(*"grad")
        await screen.until(lambda: len(screen.titles) == 1, "the gradient, and no words of both")
        await screen.pilot.press("escape")
        await screen.until(lambda: len(screen.titles) == 12, "no filter")
        assert screen.shown.query_one("#curves").has_focus


async def test_a_filter_that_nothing_matches_leaves_an_empty_screen_that_can_be_left() -> None:
    async with opened(feed.training(300)) as screen:
        await screen.press("slash", *"zzz")
        await screen.shows("no curve matches /zzz; esc clears the filter")
        assert not screen.titles
        await screen.press("enter", "enter", "down", "o", "P", "escape", "escape")
        await screen.until(lambda: len(screen.titles) == 12, "all again")


async def test_enter_makes_a_curve_large_and_o_lays_others_over_it_with_their_names() -> None:
    async with opened(feed.training(2000)) as screen:
        await screen.press("o", "down", "o", "enter")
        await screen.until(lambda: len(screen.titles) == 1, "one chart")
        await screen.until(lambda: screen.text.count("val/loss") >= 2, "its name at its end, too")
        assert len({trace.mark for trace in screen.curves.pane.grid.cells[0].spec.traces if trace.kind == "line"}) == 2
        await screen.press("O")
        await screen.until(lambda: len(screen.curves.pane.grid.cells[0].spec.traces) <= 2, "alone again")


async def test_more_than_six_curves_are_not_laid_over_each_other() -> None:
    async with opened(feed.training(300)) as screen:
        for _ in range(6):
            await screen.press("o", "down")
        await screen.press("o")
        await screen.shows("6 curves in one chart at most")
        assert len(screen.curves.pane.choice.overlaid) == 6


async def test_order_reverse_and_pin() -> None:
    async with opened(feed.training(600)) as screen:
        await screen.press("s")
        await screen.until(lambda: screen.titles == sorted(screen.titles), "by name")
        await screen.shows("by name")
        await screen.press("S", "P")
        await screen.shows("by name, reversed")
        await screen.until(lambda: screen.titles[0] == "loss", "pinned before all")
        assert screen.titles[1:] == sorted(screen.titles[1:], reverse=True)
        await screen.press("s")
        await screen.shows("by newest")


async def test_the_cursor_of_the_overview_is_there_with_the_measured_value() -> None:
    async with opened(feed.training(1000)) as screen:
        await screen.press("1", "left", *["shift+left"] * 3, "2")
        step = screen.curves.view.cursor
        assert step is not None
        await screen.shows(f"step {step:,.0f}")
        session = screen.app.workspace.session
        with session.lock:
            assert session.state.primary is not None
            loss = session.state.primary.series["loss"].y_at(step)
        await screen.shows(f"{loss:.3f}")


async def test_one_chart_at_a_time_shows_what_has_come_since() -> None:
    async with opened(feed.training(500)) as screen:
        source = screen.app.workspace.session._source
        assert isinstance(source, feed.FedSource)
        before = screen.curves.pane.grid.cells
        source.give([feed.steps(500, 10), feed.heartbeat(510 * feed.STEP_SECONDS, 510)])
        await screen.until(
            lambda: all(new is not old for new, old in zip(screen.curves.pane.grid.cells, before, strict=True)),
            "all charts were drawn anew, one after the other",
        )


async def test_help_and_hints_name_the_keys_of_this_screen() -> None:
    async with opened(feed.training(300)) as screen:
        await screen.shows("/ filter", "enter large")
        await screen.press("question_mark")
        help = screen.app.screen
        assert isinstance(help, HelpScreen)
        keys = {shown for _, group in help.groups for shown, _ in group}
        assert {"enter", "/", "o", "x", "d", "sS", "P", "↑↓", "esc"} <= keys


async def test_a_curve_with_few_points_is_drawn_as_points_unsmoothed() -> None:
    async with opened(feed.training(2000)) as screen:
        cell = next(cell for cell in screen.curves.pane.grid.cells if cell.name == "val/loss")
        line, points = cell.spec.traces
        assert points.kind == "points" and len(points.y) == 4
        assert line.y.tolist() == points.y.tolist()


async def test_a_rate_that_ends_at_zero_is_zero_and_no_average_of_what_it_was() -> None:
    def ended(record: Record) -> Record:
        if not isinstance(record, Steps):
            return record
        rates = [0.0 if record.ordinal + place >= 600 else 3e-4 for place in range(record.count)]
        return structs.replace(record, lrs={"lr": pack("f8", rates)})

    async with opened([ended(record) for record in feed.training(1200)]) as screen:
        cell = next(cell for cell in screen.curves.pane.grid.cells if cell.name == "lr")
        assert cell.spec.traces[0].y[-1] == 0.0
        assert [text.strip() for shown in cell.values for text, _ in shown if text.strip()] == ["0"]


async def test_a_metric_that_comes_late_gets_its_chart() -> None:
    async with opened(feed.training(300)) as screen:
        source = screen.app.workspace.session._source
        assert isinstance(source, feed.FedSource)
        source.give([Scalars(t=100.0, step=300, ordinal=300, values={"accuracy": 0.5})])
        await screen.until(lambda: "accuracy" in screen.titles, "its chart")


async def test_two_runs_open_on_their_losses_with_names_signs_and_values() -> None:
    base = feed.training(1500)
    async with opened(base, worse(base)) as screen:
        assert screen.titles == ["loss"]
        await screen.until(lambda: screen.text.count("run-b") >= 2, "at the end of its curve and in the title")
        traces = screen.curves.pane.grid.cells[0].spec.traces
        assert [trace.label for trace in traces] == ["run-a", "run-b"]
        assert len({trace.mark for trace in traces}) == len({trace.ink for trace in traces}) == 2


async def test_the_overview_lays_the_losses_of_all_runs_over_each_other_and_other_panes_say_whose_they_are() -> None:
    base = feed.training(1500)
    async with opened(base, worse(base)) as screen:
        colours = [trace.ink for trace in screen.curves.pane.grid.cells[0].spec.traces]
        await screen.press("1")
        await screen.shows("run-a", "run-b", "step time of run-a", "layers of run-a", "findings of run-a")
        pane = screen.shown.query_one(LossPane)
        await screen.until(lambda: len(pane.spec.traces) == 2, "both losses")
        assert [trace.ink for trace in pane.spec.traces] == colours


def told_values(screen: Curves) -> list[str]:
    """The numbers in the title of the first chart."""
    pieces = [text.strip() for shown in screen.curves.pane.grid.cells[0].values for text, _ in shown]
    return [text for text in pieces if text and (text == "–" or text[-1].isdigit())]


async def test_of_several_runs_the_values_are_those_measured_whatever_the_zoom_and_end_with_the_run() -> None:
    long, short = feed.training(1500), worse(feed.training(900))
    async with opened(long, short) as screen:

        def measured(step: float) -> list[str]:
            found = []
            for shown in screen.app.workspace.runs:
                with shown.session.lock:
                    process = shown.session.state.primary
                    assert process is not None
                    series = process.series["loss"]
                    point = series.point_at(step)
                    at_end = series.last_x is not None and (step == np.inf or step <= series.last_x)
                    found.append(number(point[1]) if point and at_end else "–")
            return found

        newest = measured(np.inf)
        await screen.until(lambda: told_values(screen) == newest, f"{newest}")
        await screen.press("plus", "plus")
        await screen.until(lambda: screen.app.workspace.view.span is not None, "zoomed in")
        assert told_values(screen) == newest
        for step in (500.0, 1200.0):
            screen.app.workspace.view.cursor = step
            await screen.until(lambda: told_values(screen) == measured(step), f"{measured(step)}")  # noqa: B023
        assert told_values(screen)[1] == "–"
        await screen.go("1")
        pane = screen.shown.query_one(LossPane)
        await screen.until(lambda: [number(read.y) for read in pane.measured] == measured(1200.0), "the same")
        screen.app.workspace.view.cursor = None
        await screen.until(lambda: [number(read.y) for read in pane.measured] == newest, "the newest of each")


async def test_the_difference_that_is_told_is_that_of_the_measured_values_where_the_shorter_run_ends() -> None:
    async with opened(feed.training(1500), worse(feed.training(900), by=0.5)) as screen:
        await screen.press("d")
        await screen.until(lambda: told_values(screen) == ["0.5000"], "exactly")
        await screen.press("x")
        await screen.shows("over time")
        assert len(told_values(screen)) == 1
        await screen.press("x", "x")
        screen.app.workspace.view.cursor = 1200.0
        await screen.until(lambda: told_values(screen) == ["–"], "beyond the end")


async def test_colours_and_signs_are_those_of_the_name_whatever_the_order() -> None:
    base = feed.training(300)
    looks = []
    for runs in ((base, worse(base)), (worse(base), base)):
        async with opened(*runs) as screen:
            traces = screen.curves.pane.grid.cells[0].spec.traces
            looks.append({trace.label: (trace.mark, trace.ink) for trace in traces})
    assert looks[0] == looks[1]


async def test_d_shows_each_run_less_the_first() -> None:
    base = feed.training(1500)
    async with opened(base, worse(base, by=0.5)) as screen:
        await screen.press("d")
        await screen.shows("less run-a")
        (trace,) = screen.curves.pane.grid.cells[0].spec.traces
        assert trace.label == "run-b" and abs(trace.y - 0.5).max() < 1e-9
        await screen.press("d")
        assert len(screen.curves.pane.grid.cells[0].spec.traces) == 2


async def test_x_goes_through_the_axes_that_were_measured() -> None:
    base = feed.training(1500)
    async with opened(worse(base), worse(base, slower=4.0)) as screen:
        await screen.press("x")
        await screen.shows("over time, min")
        ends = [trace.x[-1] for trace in screen.curves.pane.grid.cells[0].spec.traces]
        assert ends[1] == pytest.approx(2 * ends[0], rel=0.02)
        await screen.press("x")
        await screen.shows("over tokens")
        ends = [trace.x[-1] for trace in screen.curves.pane.grid.cells[0].spec.traces]
        assert ends == pytest.approx([1_500_000, 1_500_000], rel=0.02)
        await screen.press("x")
        await screen.until(lambda: "over" not in screen.text.splitlines()[1], "steps again")


async def test_a_run_that_has_not_measured_the_axis_is_named() -> None:
    base = feed.training(600)
    async with opened(worse(base), base) as screen:
        await screen.press("x", "x")
        await screen.shows("over tokens", "no tokens measured by run-b")


async def test_where_the_first_run_has_not_measured_the_axis_all_stay_on_the_step() -> None:
    base = feed.training(600)
    async with opened(base, worse(base)) as screen:
        await screen.press("x", "x")
        await screen.shows("no tokens measured by run-a")
        ends = [trace.x[-1] for trace in screen.curves.pane.grid.cells[0].spec.traces]
        assert ends == pytest.approx([599, 599], abs=5)


async def test_a_click_chooses_the_chart_and_puts_the_cursor_there() -> None:
    async with opened(feed.training(1000)) as screen:
        grid = screen.curves.pane.grid
        left, top, width, height = grid.geometry.boxes[4]
        await screen.pilot.click(grid, offset=(left + width // 2, top + height // 2))
        await screen.until(lambda: screen.curves.pane.choice.chosen == screen.titles[4], "the fifth is chosen")
        assert screen.curves.view.cursor is not None and 300 < screen.curves.view.cursor < 800


async def test_from_a_card_enter_goes_to_its_curve_at_the_step_where_it_began() -> None:
    async with opened(feed.training(1500, nan_from=1200)) as screen:
        await screen.press("down", "1")
        await screen.shows("nonfinite-loss")
        await screen.press("enter")
        await screen.shows("Symptom", "enter: curves")
        await screen.press("enter")
        await screen.until(lambda: isinstance(screen.app.screen, CurvesScreen), "the curves")
        await screen.shows("▸ loss", "step 1,200")
        cell = next(cell for cell in screen.curves.pane.grid.cells if cell.name == "loss")
        (span,) = cell.spec.spans
        assert (span.x0, span.x1) == (1200, 1499), "what goes on is shaded to the end"
        await screen.press("escape")
        await screen.until(lambda: not screen.curves.pane.grid.cells[0].spec.spans, "no cursor, no shade")


async def test_one_run_has_no_difference_and_says_so() -> None:
    async with opened(feed.training(300)) as screen:
        await screen.press("d")
        await screen.shows("a difference needs two runs")


async def test_ascii_only_draws_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NTSTOP_ASCII", "1")
    base = feed.training(600)
    async with opened(base, worse(base)) as screen:
        await screen.shows("run-a", "run-b")
        await screen.press("escape")
        await screen.until(lambda: len(screen.titles) == 12, "the grid")
        assert screen.text.isascii(), {character for character in screen.text if not character.isascii()}


async def test_the_time_to_draw_does_not_grow_with_the_run() -> None:
    """By what is asked for: no window of a chart has more buckets than its columns call for."""
    asked: list[int] = []
    async with opened([feed.hello(), feed.steps(0, 20_000)]) as screen:
        session = screen.app.workspace.session
        window = session.zoom.window

        def counted(*words: object, **options: object) -> Buckets:
            found = window(*words, **options)  # type: ignore[arg-type]
            asked.append(len(found))
            return found

        session.zoom.window = counted  # type: ignore[method-assign]
        await screen.press("y")
        assert asked and max(asked) <= 4 * 120


async def test_the_newest_loss_is_the_same_number_everywhere_and_the_average_is_called_so() -> None:
    async with opened(feed.training(1000)) as screen:
        session = screen.app.workspace.session
        with session.lock:
            process = session.state.primary
            assert process is not None
            newest = number(process.series["loss"].last_y)
        await screen.shows(newest)
        await screen.go("1")
        await screen.shows(f"loss  {newest}", "avg")
        await screen.press("e", "e")
        await screen.shows("raw", newest)
        assert "avg" not in screen.text


async def test_the_title_says_which_of_the_curves_have_room() -> None:
    async with opened(feed.training(300), size=(80, 24)) as screen:
        many = len(screen.curves.pane.shown)
        await screen.shows(f"curves 1-4 of {many}")
        await screen.press("pagedown")
        await screen.shows(f"curves 5-8 of {many}")
        await screen.press("pagedown", "pageup", "pageup")
        await screen.shows(f"curves 1-4 of {many}")
        await screen.press("end")
        await screen.shows(f"-{many} of {many}")
        await screen.press("enter")
        await screen.shows(f"curves {many} of {many}")


async def test_panes_of_one_run_say_whose_they_are_when_several_are_open() -> None:
    async with opened(feed.training(300), feed.training(300)) as screen:
        await screen.go("3")
        await screen.shows("layers of run-a", "heat map of run-a", "blocks.0.attn.weight of run-a")
        await screen.go("4")
        await screen.shows("step time of run-a", "throughput of run-a", "slowest steps of run-a")
        await screen.go("1")
        await screen.shows("layers of run-a", "findings of run-a", "─▸ loss rank 0")


async def test_the_status_line_is_about_the_first_run_when_another_went_further() -> None:
    async with opened(feed.training(300), feed.training(700)) as screen:
        await screen.shows("run-a", "run-b", "step 299 / 50,000")


def test_losses_on_other_data_are_known_by_their_names_and_what_is_looked_for_stands_first() -> None:
    names = ["loss", "val loss", "eval/loss", "train loss", "test_loss", "valid_size", "loss/1"]
    assert evaluation_losses(dict.fromkeys(names, Series())) == ["eval/loss", "test_loss", "val loss"]
    found = in_order(["lr/0.1", "phase/data", "step_time", "lr", "val loss", "grad_norm", "loss", "accuracy"])
    assert found == ["loss", "val loss", "accuracy", "lr", "grad_norm", "step_time", "lr/0.1", "phase/data"]
