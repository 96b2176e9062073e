"""The ranks beside each other: at the cursor, as curves or as a map, and where there is room for which."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from types import ModuleType

import msgspec
import numpy as np
import pytest

from ntstop.run.state import RunState
from ntstop.session import Session
from ntstop.settings import View
from ntstop.tui.app import BEGIN, NtstopApp
from ntstop.tui.raster.heat import heat_box, plot_heat
from ntstop.tui.raster.ink import Ink
from ntstop.tui.raster.spec import Glyphs, Span
from ntstop.tui.screens.ranks import RanksScreen
from ntstop.tui.view import StepView
from ntstop.tui.widgets import rank_map as rank_map_module
from ntstop.tui.widgets import ranks as ranks_module
from ntstop.tui.widgets.rank_choice import BATCH, MOST_RANKS, RankChoice, chosen_of
from ntstop.tui.widgets.rank_map import RankMapPane, rank_curves, rank_spec
from ntstop.tui.widgets.ranks import CROWD, RanksPane, rank_lines
from ntstop.tui.workspace import Shown, Workspace
from tests.monitor.records import Script, descent, hello
from tests.tui.feed import FedSource
from tests.tui.opened import Screen


def state_of(*step_times: tuple[float, float]) -> RunState:
    """A rank for each: 100 steps of the first step time, 100 of the second."""
    state = RunState()
    for rank, (before, after) in enumerate(step_times):
        run = Script(step_time=before).add(hello(rank=rank)).steps(descent(100))
        run.step_time = after
        for record in run.steps(descent(100)).records:
            state.apply(rank + 1, record)
    return state


def test_with_a_cursor_the_times_are_those_of_its_step() -> None:
    state = state_of((0.1, 0.1), (0.1, 0.2), (0.1, 0.1))
    assert [line.beside_peers for line in rank_lines(state.ranks, live=False)] == pytest.approx([1, 2, 1])
    then = rank_lines(state.ranks, live=False, cursor=50.0)
    assert [line.beside_peers for line in then] == pytest.approx([1, 1, 1])
    assert [line.seconds for line in then] == pytest.approx([0.1] * 3) and then[0].step == 199


def test_while_what_was_recorded_is_read_no_rank_lags() -> None:
    assert [line.lag for line in rank_lines(state_of((0.1, 0.1)).ranks, live=True, is_reading=True)] == [None]


def test_a_launcher_that_trains_nothing_is_no_rank_that_lags() -> None:
    state = state_of((0.1, 0.1), (0.1, 0.1))
    state.apply(99, hello(rank=None))
    assert [(line.rank, line.lag) for line in rank_lines(state.ranks, live=False)] == [(0, 0.0), (1, 0.0)]
    assert [line.rank for line in rank_lines({None: state.processes[99]}, live=False)] == [None]


def test_curves_of_a_few_ranks_end_at_twice_the_usual_step_time_of_the_slowest() -> None:
    short, unit = rank_curves(state_of((0.1, 0.15), (0.1, 0.1)).ranks, StepView(0.0, 199.0), 100)
    assert unit == "ms" and [trace.label for trace in short.traces] == ["rank 0", "rank 1"]
    assert short.y_range == pytest.approx((80.0, 156.25)), "jitter does not fill the axis"
    run = Script(step_time=2.0).add(hello(rank=0)).steps(descent(190))
    run.step_time = 60.0
    state = RunState()
    for record in run.steps(descent(10)).records:
        state.apply(1, record)
    long, unit = rank_curves(state.ranks, StepView(0.0, 199.0), 100)
    assert unit == "s" and long.y_range == pytest.approx((1.6, 4.0))


def test_a_rank_that_is_half_slower_has_a_shade_of_its_own_and_a_span_is_set_off_on_the_axis() -> None:
    state = state_of(*[(0.1, 0.1)] * 8, (0.1, 0.16))
    span = Span(100.0, 150.0, Ink.SPAN_WARNING)
    spec = rank_spec(state.ranks, StepView(0.0, 199.0), 60, spans=[span])
    drawn = replace(spec, width=80, height=13)
    picture = plot_heat(drawn)
    lines = picture.text().splitlines()
    assert "0.8…1.25 healthy" in lines[0]
    slow = next(line for line in lines if line.startswith("8 "))
    cells = slow.removeprefix("8").strip()
    assert len(cells) == heat_box(drawn).width and " " not in cells, "from the first step to the last"
    assert "▄" in slow and "▆" in slow, "1.6 times is the second shade: a quarter more each"
    row = next(place for place, line in enumerate(lines) if "└" in line)
    grounds = np.flatnonzero(picture.ground[row] == Ink.SPAN_WARNING)
    assert len(grounds) and "═" in lines[row]
    assert "=" in plot_heat(replace(drawn, glyphs=Glyphs.ASCII)).text()


def slow_at_first(slow: Sequence[int], ranks: int) -> RunState:
    """Some of so many ranks take 2.5 times as long in the first half of 200 steps."""
    return state_of(*((0.25 if rank in slow else 0.1, 0.1) for rank in range(ranks)))


def test_a_rank_that_was_slow_for_long_has_a_row_while_that_is_in_view() -> None:
    state = slow_at_first([37, 111], 150)
    choice, view = RankChoice(), StepView(0.0, 199.0)
    for now in range(150 // BATCH + 2):
        choice.look(state.ranks, (), float(now), lambda some: rank_spec(some, view, 16))
    assert choice.is_complete and {37, 111} <= set(choice.chosen)
    assert len(choice.chosen) <= MOST_RANKS and choice.chosen == sorted(choice.chosen, key=lambda rank: rank or 0)
    drawn = replace(rank_spec({rank: state.ranks[rank] for rank in choice.chosen}, view, 60), width=80, height=80)
    assert "▇" in next(line for line in plot_heat(drawn).text().splitlines() if line.startswith("37 "))


def test_a_deep_zoom_begins_with_the_step_before_its_first() -> None:
    view = StepView(0.0, 199.0)
    view.span, view.end = 10.0, 60.5
    spec = rank_spec(state_of((0.1, 0.1), (0.1, 0.2)).ranks, view, 60)
    assert spec.x is not None and spec.values is not None and view.window == (50.5, 60.5)
    assert spec.x[0] == 50.5 and np.isfinite(spec.values[:, 0]).all() and spec.x[-1] <= 60.0


def test_ranks_between_are_at_all_places_of_their_hosts_and_those_of_findings_are_among_them() -> None:
    names = list(range(384))
    chosen = chosen_of(names, {})
    assert (
        len({rank % 8 for rank in chosen[17:] if rank is not None}) > 4 and 383 in chosen and len(chosen) <= MOST_RANKS
    )
    assert {41, 203} <= set(chosen_of(names, {}, {41, 203, 999}))
    assert chosen_of(names[:MOST_RANKS], {}) == names[:MOST_RANKS]


@contextlib.asynccontextmanager
async def shown(ranks: int, size: tuple[int, int], *, begin: View = BEGIN) -> AsyncIterator[Screen]:
    """The ranks screen on a run of so many."""
    run = Script(step_time=0.1).add(hello(rank=0)).steps(descent(100))
    with Session(FedSource(run.records)) as session:
        assert session.wait_for_end(30)
        with session.lock:
            for rank in range(1, ranks):
                for record in Script(step_time=0.1).add(hello(rank=rank)).steps(descent(100)).records:
                    session.state.apply(100 + rank, record)
        async with NtstopApp(session, begin=begin).run_test(size=size) as pilot:
            screen = Screen(pilot)
            await screen.until(lambda: screen.app.run_screen is not None, "a screen")
            await screen.go("6")
            yield screen


@pytest.mark.parametrize(
    ("ranks", "size", "has_map"), [(2, (80, 24), True), (2, (60, 20), True), (40, (80, 24), False)]
)
async def test_the_steps_are_shown_below_where_the_table_leaves_room(
    ranks: int, size: tuple[int, int], has_map: bool
) -> None:
    async with shown(ranks, size) as screen:
        await screen.shows("slowest rank", "× peers")
        table = screen.shown.query_one(RanksPane)
        await screen.until(lambda: (table.size.height < size[1] // 2) is has_map, "the table leaves room, or takes all")
        await screen.until(lambda: ("step time by rank" in screen.text) is has_map, "the steps below")


async def test_of_a_crowd_a_key_makes_no_lines_and_no_map_and_both_have_it_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with shown(CROWD, (120, 40)) as screen:
        await screen.shows("slowest rank", "step time by rank")
        table, steps = screen.shown.query_one(RanksPane), screen.shown.query_one(RankMapPane)
        await screen.until(lambda: len(table.found) == CROWD, "all ranks")
        await screen.pilot.press("y")  # now that the width of their names is known
        made = Counter[str]()

        def counted(module: ModuleType, name: str) -> None:
            make = getattr(module, name)

            def counting(*given: object, **more: object) -> object:
                made[name] += 1
                return make(*given, **more)

            monkeypatch.setattr(module, name, counting)

        counted(ranks_module, "rank_lines")
        counted(rank_map_module, "rank_spec")
        plain = screen.shown.tick
        monkeypatch.setattr(screen.shown, "tick", lambda *, at_leisure=False: at_leisure or plain())
        await screen.pilot.press("left", "left", "right", "e")
        assert steps.spec.cursor_x is not None and steps.spec.cursor_x == screen.shown.view.cursor
        assert table.cursor is None and not made
        await screen.pilot.press("+", "+")
        window = screen.shown.view.window
        # What was known of these steps stands where they are now, as coarse as it was.
        assert steps.owes and steps.spec.x_range == window and not made
        assert steps.spec.x is not None and steps.spec.x[0] < window[0]
        # It is their turn also where each look finds news.
        news = itertools.count()
        monkeypatch.setattr(Workspace, "version", property(lambda _: next(news)))
        assert all(steps in screen.shown.due() for _ in screen.shown.TURNS)
        monkeypatch.undo()
        await screen.until(
            lambda: steps.spec.x is not None and steps.spec.x[0] >= window[0], "a map of what is in view"
        )
        assert steps.spec.x_range == window
        await screen.until(lambda: table.cursor == screen.shown.view.cursor, "the lines at the cursor")
        await screen.pilot.press("space", "left")
        await screen.until(lambda: table.cursor == screen.shown.view.cursor, "the lines, paused too")


async def test_what_a_key_left_to_be_drawn_of_a_crowd_does_not_wait_for_the_next_look() -> None:
    async with shown(CROWD, (120, 40), begin=View(refresh=3600.0)) as screen:
        await screen.shows("slowest rank", "step time by rank")
        table, steps = screen.shown.query_one(RanksPane), screen.shown.query_one(RankMapPane)
        await screen.until(lambda: len(table.found) == CROWD, "all ranks")
        await screen.pilot.press("y", "left", "+")
        window = screen.shown.view.window
        await screen.until(lambda: table.cursor == screen.shown.view.cursor, "the lines at the cursor")
        await screen.until(
            lambda: steps.spec.x is not None and steps.spec.x[0] >= window[0], "a map of what is in view"
        )
        assert steps.spec.x_range == window


async def test_of_another_run_nothing_of_the_one_before_is_shown() -> None:
    with Session(FedSource(Script(step_time=0.1).add(hello(rank=0)).steps(descent(10)).records)) as other:
        assert other.wait_for_end(30)
        async with shown(CROWD, (120, 40)) as screen:
            table, steps = screen.shown.query_one(RanksPane), screen.shown.query_one(RankMapPane)
            await screen.until(lambda: len(table.found) == CROWD and steps.spec.values is not None, "a crowd")
            screen.shown.workspace.runs[:] = [Shown(other)]
            screen.shown.redraw()
            assert len(table.found) == 1 and steps.curves is not None


def test_a_run_of_many_ranks_of_which_one_is_read_yet_has_a_screen_of_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Script().add(msgspec.structs.replace(hello(rank=0), world=1024)).steps(descent(10))
    with Session(FedSource(run.records)) as session:
        assert session.wait_for_end(30)
        workspace = Workspace([Shown(session)])
        assert RanksScreen.hidden_why(workspace) == "the run has one rank"
        monkeypatch.setattr(Session, "is_read", False)
        assert not RanksScreen.hidden_why(workspace)
