"""The screens behind the digits: what each shows of a run at which size, and what its keys do."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from msgspec import structs

from ntstop.session import Session
from ntstop.text import cell_width, number
from ntstop.tui.app import NtstopApp
from ntstop.tui.widgets.finding_table import FindingTable
from ntstop.tui.widgets.layer_curves import LayerCurvesPane
from ntstop.tui.widgets.layer_table import SHOWN, LayerTable, told_text
from ntstop.tui.widgets.layers import LayersPane
from ntstop.tui.widgets.phases import PhasesPane
from ntstop.tui.widgets.slowest import SlowestPane
from ntstop.tui.widgets.throughput import ThroughputPane
from ntstop_probe.wire import Hello, Layers, Record, pack
from tests.tui import feed
from tests.tui.opened import Screen, opened

SIZES = ((60, 20), (80, 24), (120, 40), (200, 60))


@pytest.fixture(autouse=True)
def a_good_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return list(feed.training(1200))


def rank(records: Sequence[Record], number: int) -> Hello:
    """Another rank of the same run."""
    first = next(record for record in records if isinstance(record, Hello))
    return structs.replace(first, rank=number, writer=f"node17-{number}", pid=5000 + number)


HEADINGS = {
    "3": ("layers", "gradient", "ratio", "blocks.0.attn.weight"),
    "4": ("step time", "slowest steps", "backward"),
    "5": ("memory", "ledger", "weights", "estimated"),
    "7": ("findings", "unreproducible"),
    "8": ("run", "gpt-small", "events", "checkpoint", "probe"),
}


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_every_screen_says_its_main_thing_at_every_size(records: list[Record], size: tuple[int, int]) -> None:
    async with opened(records, size) as screen:
        for key, words in HEADINGS.items():
            await screen.go(key)
            await screen.shows(*words)
            rows = screen.text.splitlines()
            assert len(rows) == size[1] and max(map(cell_width, rows)) <= size[0]


async def test_a_table_says_which_rows_are_seen_where_it_is_scrolled_and_goes_back_with_the_cursor() -> None:
    async with opened(feed.training(1200)) as screen:
        await screen.go("4")
        table = screen.shown.query_one(SlowestPane)
        await screen.until(lambda: len(table.rows) == 100, "the slowest")
        first, chosen = table.rows[0].step, table.rows[70].step
        screen.app.workspace.view.show(chosen)
        rows = table.table.size.height - 1
        await screen.shows(f"{72 - rows}-71 of 100")
        assert table.chosen is not None and table.chosen.step == chosen
        await screen.pilot.press("escape")
        await screen.until(lambda: "of 100" not in screen.text, "the top of the table")
        assert table.chosen is not None and table.chosen.step == first and table.first_in_view == 0
        screen.app.workspace.view.show(chosen)
        await screen.shows("-71 of 100")
        screen.app.workspace.view.show(next(step for step in range(1200) if step not in {s.step for s in table.rows}))
        await screen.until(lambda: table.first_in_view == 0, "the top, of a step that is not among the slowest")


async def test_the_title_of_a_table_follows_its_rows_with_a_key_and_another_size() -> None:
    names = [f"blocks.{block}.weight" for block in range(60)]
    async with opened(feed.training(100, layer_names=names)) as screen:
        await screen.go("3")
        await screen.shows("60 layers")
        assert "of 60 layers" not in screen.text
        await screen.pilot.press("end")
        rows = screen.shown.query_one(LayerTable).table.size.height - 1
        await screen.shows(f"{61 - rows}-60 of 60 layers")
        await screen.pilot.resize_terminal(120, 30)
        await screen.shows(f"{71 - rows}-60 of 60 layers")
        await screen.pilot.press("home")
        await screen.until(lambda: "of 60 layers" not in screen.text, "the top of the table")


async def test_a_run_of_one_rank_has_no_screen_of_ranks_and_says_so(records: list[Record]) -> None:
    async with opened(records) as screen:
        await screen.pilot.press("6")
        await screen.shows("the run has one rank")
        assert screen.shown.TITLE == "overview"
        await screen.go("5")
        assert "the run has one rank" not in screen.text, "what was said of a key goes with the next"


async def test_the_ranks_are_told_beside_each_other_with_their_lag() -> None:
    records = list(feed.training(200))
    with Session(feed.FedSource(records)) as session:
        assert session.wait_for_end(30)
        with session.lock:
            session.state.apply(8, rank(records, 1))
            for record in feed.training(150):
                if not isinstance(record, Hello):
                    session.state.apply(8, record)
        async with NtstopApp(session).run_test(size=(120, 40)) as pilot:
            screen = Screen(pilot)
            await screen.until(lambda: screen.app.run_screen is not None, "a screen")
            await screen.go("6")
            await screen.shows("widest lag 50 steps", "slowest rank", "× peers", "step time by rank", "rank 1")


async def test_the_layer_table_sorts_by_the_column_that_s_chooses_and_turns_round(records: list[Record]) -> None:
    async with opened(records, (200, 60)) as screen:
        await screen.go("3")
        table = screen.shown.query_one(LayerTable)
        await screen.until(lambda: len(table.rows) == 12, "12 layers")
        for _ in range(5):
            await screen.pilot.press("s")
        ratios = [row.ratio for row in table.rows]
        assert ratios == sorted(ratios, reverse=True)
        await screen.pilot.press("S")
        assert [row.ratio for row in table.rows] == sorted(ratios)
        assert "ratio▴" in screen.text


async def test_modules_fold_into_one_row_with_the_norm_of_all(records: list[Record]) -> None:
    async with opened(records, (120, 40)) as screen:
        await screen.go("3")
        table = screen.shown.query_one(LayerTable)
        await screen.until(lambda: len(table.rows) == 12, "12 layers")
        squares = sum(row.grad_norm**2 for row in table.rows if row.name.startswith("blocks.0."))
        await screen.pilot.press("o", "o")
        await screen.until(lambda: len(table.rows) == 6, "6 parts")
        part = next(row for row in table.rows if row.name == "blocks.0")
        assert part.grad_norm == pytest.approx(squares**0.5)


async def test_the_curves_are_those_of_the_chosen_layer(records: list[Record]) -> None:
    async with opened(records, (120, 40)) as screen:
        await screen.go("3", "down", "down")
        await screen.shows("── blocks.1.attn.weight")


async def test_the_title_of_the_curves_tells_what_the_table_tells_at_the_cursor(records: list[Record]) -> None:
    async with opened(records, (120, 40)) as screen:
        await screen.go("3", "down")
        await screen.shows("newest sample", "── blocks.0.mlp.weight")
        screen.app.workspace.view.show(455)
        table, curves = screen.shown.query_one(LayerTable), screen.shown.query_one(LayerCurvesPane)
        await screen.shows("layers sample of step 450, 5 before")
        await screen.until(lambda: curves.row is not None and curves.row == table.chosen, "the same row")
        assert table.chosen is not None
        assert f"grad {number(table.chosen.ratio)}" in screen.text
        process = screen.session.state.primary
        assert process is not None
        assert table.chosen.ratio == pytest.approx(process.layers["ratio"].column_at(455)[0][1], rel=1e-5)


async def test_enter_shows_all_curves_of_a_layer_and_arrows_go_to_the_next(records: list[Record]) -> None:
    async with opened(records, (120, 40)) as screen:
        await screen.go("3", "down")
        await screen.shows("── blocks.0.mlp.weight", "ratio")
        await screen.pilot.press("enter")
        await screen.shows("gradient norm", "weight norm", "gradient / weight", "update / weight")
        assert not screen.shown.query_one(LayerTable).size
        await screen.pilot.press("down")
        await screen.shows("▸ blocks.1.attn.weight", "weight norm")
        await screen.pilot.resize_terminal(60, 20)
        await screen.shows("gradient / weight", "update / weight", "room for 2 of 4")
        await screen.pilot.press("escape")
        await screen.until(lambda: screen.shown.focused is screen.shown.query_one(LayerTable), "the table")
        await screen.shows("▸ blocks.1.attn.weight")


async def test_what_was_measured_and_is_not_finite_is_told_as_that_and_what_was_not_measured_is_not() -> None:
    names = ["embedding.weight", "head.weight"]
    norms: dict[str, list[float | None]] = {
        "grad_norm": [math.nan, 1.0],
        "param_norm": [math.inf, 1.0],
        "update_ratio": [None, math.nan],
    }
    columns = {field: column for field, values in norms.items() if (column := pack("f4", values)) is not None}
    sample = Layers(schema=1, ordinal=99, step=None, t=29.7, columns=columns, interval=10)
    async with opened([*feed.training(100, layer_names=names), sample], (200, 60)) as screen:
        await screen.go("3")
        table = screen.shown.query_one(LayerTable)
        await screen.shows("newest sample, step 99")
        told = [[told_text(row, field) for field in SHOWN] for row in table.rows]
        assert told == [
            ["nan/inf", "nan/inf", "nan/inf", "–", "–", "–"],
            ["1.000", "1.000", "1.000", "nan/inf", "–", "–"],
        ]
        await screen.shows("grad nan/inf")
        await screen.pilot.press("enter")
        curves = screen.shown.query_one(LayerCurvesPane)
        await screen.until(lambda: len(curves.cells) == 4, "a chart of each")
        told = [[text for text, _ in cell.values[0]][:1] for cell in curves.cells]
        assert told == [["nan/inf"], ["–"], ["nan/inf"], ["nan/inf"]]


async def test_table_and_map_choose_the_same_layer(records: list[Record]) -> None:
    async with opened(records, (200, 60)) as screen:
        await screen.go("3", "down", "down")
        heat, table = screen.shown.query_one(LayersPane), screen.shown.query_one(LayerTable)
        await screen.until(lambda: heat.heat.row is not None and 2 in heat.heat.layers_at(heat.heat.row), "the row")
        heat.focus()
        await screen.pilot.press("down")
        await screen.until(lambda: table.chosen is not None and table.chosen.layers[0] >= 3, "another layer")
        assert heat.heat.row is not None and table.chosen is not None
        assert table.chosen.layers[0] in heat.heat.layers_at(heat.heat.row)


async def test_the_step_time_says_where_it_is_a_mean_and_not_that_of_the_cursor(records: list[Record]) -> None:
    async with opened(records) as screen:
        await screen.go("4")
        await screen.shows(" ms mean ─")
        screen.app.workspace.view.show(700)
        await screen.until(lambda: " ms mean" not in screen.text, "the time of one step")


async def test_enter_on_a_slow_step_puts_the_cursor_there_on_every_screen(records: list[Record]) -> None:
    async with opened(records, (120, 40)) as screen:
        await screen.go("4")
        pane = screen.shown.query_one(SlowestPane)
        await screen.until(lambda: bool(pane.rows), "slow steps")
        pane.focus()
        await screen.pilot.press("down", "enter")
        step = pane.rows[1].step
        assert screen.app.workspace.view.cursor == step
        await screen.go("1")
        await screen.shows(f"step {int(step)}")


async def test_every_pane_of_the_step_screen_tells_the_step_at_the_cursor(records: list[Record]) -> None:
    slow = feed.steps(1200, 1)
    taken = structs.replace(slow, duration=pack("f4", [2.5]), phases={"data": pack("f4", [2.5])})
    async with opened([*records, taken, feed.steps(1201, 3)], (120, 40)) as screen:
        await screen.go("4")
        await screen.shows("throughput", "p99")
        screen.app.workspace.view.show(1200)
        await screen.shows("data 100%", "─   2.50 s ─", "◂ 1,200", "step 1,200 2.50 s", "▸    1,200")
        assert screen.shown.query_one(PhasesPane).stack.at_cursor == {"data": 2.5}
        screen.app.workspace.view.show(1203)
        await screen.shows("◂ 1,203", "data  25%")
        steps = screen.session.state.primary
        assert steps is not None
        took = [steps.series["step_time"].y_at(x) or 0.0 for x in range(1140, 1204)]
        pane = screen.shown.query_one(ThroughputPane)
        await screen.until(lambda: pane.spec.cursor_x == 1203, "the rate there")
        assert pane.now.steps == pytest.approx(len(took) / sum(took), rel=0.02)


async def test_the_queue_of_the_loader_is_told_at_the_cursor_too(records: list[Record]) -> None:
    beats = [
        structs.replace(feed.heartbeat(360.0 + second, 1199 + 3 * second), loader_ready=ready, loader_most=8)
        for second, ready in enumerate((7, 0))
    ]
    between = feed.steps(1200, 3)
    async with opened([*records, beats[0], between, beats[1], feed.steps(1203, 1)], (120, 40)) as screen:
        await screen.go("4")
        await screen.shows("queue 0 of 8")
        screen.app.workspace.view.show(1201)
        await screen.shows("queue 7 of 8")
        await screen.go("2", "end")
        await screen.shows("loader/ready")


async def test_filters_of_the_findings_hide_what_weighs_less_and_say_so(records: list[Record]) -> None:
    broken = [*records, feed.steps(1200, 30, nan_from=1210)]
    async with opened(broken, (120, 40)) as screen:
        await screen.go("7")
        table = screen.shown.query_one(FindingTable)
        await screen.shows("nonfinite-loss", "unreproducible")
        await screen.pilot.press("v")
        await screen.shows("warning or worse", "1 hidden")
        assert {row.kind for row in table.rows} == {"nonfinite-loss"}
        await screen.pilot.press("v", "v", "f", "f")
        await screen.until(lambda: {row.kind for row in table.rows} == {"unreproducible"}, "one family")


async def test_the_chosen_finding_is_the_chosen_one_on_every_screen(records: list[Record]) -> None:
    broken = [*records, feed.steps(1200, 30, nan_from=1210)]
    async with opened(broken, (120, 40)) as screen:
        await screen.go("7", "down")
        await screen.until(lambda: "unreproducible in manifest" in screen.text, "the card follows")
        assert screen.app.workspace.finding is not None
        assert screen.app.workspace.finding.kind == "unreproducible"


async def test_long_lines_of_the_manifest_scroll(records: list[Record]) -> None:
    async with opened(records, (80, 24)) as screen:
        await screen.go("8")
        await screen.shows("contract")
        await screen.pilot.press("end")
        await screen.shows("4×H100")


async def test_stacks_are_not_asked_of_a_job_that_is_not_here(records: list[Record]) -> None:
    async with opened(records) as screen:
        await screen.pilot.press("D")
        await screen.shows("only of a job that runs on this host")
