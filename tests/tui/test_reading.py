"""A value of another step than the one it is told at says so, the same way everywhere, and nothing moves by it."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec import structs

from ntstop.curves.series import Series
from ntstop.run.state import RunState
from ntstop.tui.raster.ink import Ink
from ntstop.tui.raster.spec import Trace
from ntstop.tui.reading import Reading, reading_of, reading_on, sample_words
from ntstop.tui.widgets.loss import LossPane
from ntstop.tui.widgets.pane import dated, draw_title, value_cells
from ntstop_probe.wire import Event, Heartbeat, Layers, ProbeStatus, Record, Scalars, Schema, pack
from tests.tui import feed
from tests.tui.opened import opened


def every(steps: int, until: int) -> Series:
    """A curve that was logged so often; its values are its steps."""
    series = Series()
    for step in range(0, until + 1, steps):
        series.append(float(step), float(step), float(step))
    return series


def test_at_the_cursor_any_other_step_is_told_and_the_own_one_leaves_as_much_room() -> None:
    kl = every(10, 360)
    behind, exact = reading_of(kl, 364, 900), reading_of(kl, 360, 900)
    assert (behind.y, behind.since, behind.is_stale) == (360, "@360", False)
    assert (exact.y, exact.since) == (360, "    ")
    assert value_cells([dated(behind, "26.83")]) == value_cells([dated(exact, "26.83")])


def test_a_curve_with_a_point_at_each_step_keeps_no_room_and_tells_where_it_has_none() -> None:
    loss = every(1, 360)
    assert reading_of(loss, 200, 360).since == ""
    assert reading_of(loss, 200.7, 360).since == ""
    stopped = reading_of(loss, 500, 900)
    assert (stopped.since, stopped.is_stale) == ("@360", True)


def test_the_newest_value_is_told_with_its_step_where_the_run_has_gone_on() -> None:
    assert reading_of(every(10, 360), None, 364).since == "@360"
    assert reading_of(every(1, 360), None, 364).since == "", "its next points are on their way"
    assert reading_of(every(1, 360), None, 900).since == "@360"
    assert reading_of(Series(), None, 900) == reading_of(None, 4, 900) == Reading()


def test_a_drawn_curve_tells_a_step_only_beyond_its_columns() -> None:
    trace = Trace(np.array([5.0, 15.0, 25.0]), np.array([1.0, 2.0, 3.0]))
    assert reading_on(trace, 33).since == ""
    assert reading_on(trace, 60).since == "@25"


def test_a_narrow_title_loses_the_step_before_a_value_which_is_dim_then() -> None:
    read = Reading(26.83, 360, 364, 10)
    values = [dated(read, "26.83"), dated(read, "1.25")]
    wide, narrow = draw_title("kl", values, 50), draw_title("kl", values, 24)
    assert "26.83 @360" in wide.text() and "1.25 @360" in wide.text()
    assert "@" not in narrow.text() and "26.83  1.25" in narrow.text()
    place = narrow.text().index("26.83")
    assert narrow.ink[0, place] == Ink.DIM and wide.ink[0, wide.text().index("26.83")] == Ink.STRONG


@pytest.mark.parametrize(
    ("steps", "cursor", "words"),
    [
        ((287, 287), 584, "sample of step 287, 297 before"),
        ((287, 287), 287, "step 287"),
        ((287, 287), None, "newest sample, step 287"),
        ((200, 280), 584, "mean of steps 200 to 280, 304 before"),
        ((200, 280), 240, "step 240, mean of steps 200 to 280"),
        (None, 12, "step 12"),
    ],
)
def test_which_sample_is_told(steps: tuple[float, float] | None, cursor: float | None, words: str) -> None:
    assert sample_words(steps, cursor) == words


async def test_the_loss_the_curves_and_the_layers_say_when_their_values_are_of_an_older_step() -> None:
    records: list[Record] = [*feed.training(300)]
    records += [Scalars(45.0, 150, 150, {"val/loss": 3.5}), Scalars(75.0, 250, 250, {"val/loss": 2.5})]
    async with opened(records, (200, 60)) as screen:
        await screen.shows("val/loss")
        screen.app.workspace.view.show(272)
        await screen.until(lambda: bool(screen.shown.query_one(LossPane).measured), "the values")
        await screen.shows("loss step 272")
        assert "@250" in screen.text


def test_how_many_batches_the_workers_make_ahead_is_known_after_the_loader_is_gone() -> None:
    state = RunState()
    state.apply(1, feed.hello())
    last = Heartbeat(t=2.0, wall=2.0, phase="idle", age=0.1, ordinal=3, probe=ProbeStatus())
    state.apply(1, structs.replace(last, t=1.0, loader_ready=6, loader_most=8))
    state.apply(1, last)
    assert state.primary is not None and state.primary.loader_most == 8


async def test_the_map_says_why_it_is_empty_under_the_cursor() -> None:
    names = ["a.weight", "b.weight"]
    records: list[Record] = [feed.hello(), Schema(0, names, [4, 4]), feed.steps(0, 400)]
    for step in range(0, 100, 10):
        norms = {"grad_norm": [0.1, 0.1], "param_norm": [10.0, 10.0]}
        columns = {name: column for name, at in norms.items() if (column := pack("f4", at)) is not None}
        records.append(Layers(0, step, None, step * 0.3, columns))
    why = Event(t=30.0, kind="sampling", ordinal=100, data={"tier": "no layers", "layers": None, "timing": 1})
    async with opened([*records, why], (120, 40)) as screen:
        await screen.shows("layers grad/weight norm")
        screen.app.workspace.view.show(95)
        await screen.shows("loss step 95")
        assert "no sample" not in screen.text
        screen.app.workspace.view.show(300)
        await screen.shows("no sample here: none taken since step 100")
