"""The overview with a real session behind it: what it shows at which size, and what the keys do."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from msgspec import structs

from ntstop.text import cell_width
from ntstop.tui.screens.card import CardScreen
from ntstop.tui.screens.help import HelpScreen
from ntstop.tui.screens.overview import Overview
from ntstop.tui.widgets.layers import LayersPane
from ntstop.tui.widgets.loss import LossPane
from ntstop.tui.widgets.phases import PhasesPane
from ntstop_probe.wire import Event, Hello, Scalars, Steps, pack
from tests.tui import feed
from tests.tui.opened import NARROW, TINY, WIDE, opened


@pytest.fixture(autouse=True)
def a_good_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)


async def test_wide_it_shows_every_pane() -> None:
    async with opened(feed.training(2000)) as screen:
        await screen.shows("gpt-small", "4 ranks", "● LIVE", "step 1,999 / 50,000", "probe 0.3%")
        await screen.shows("loss", "val/loss", "layers", "step time", "resources", "findings", "healthy", "cores")
        assert all(cell_width(line) <= 120 for line in screen.text.splitlines())


async def test_at_80_by_24_it_leaves_out_panes_whole_and_keeps_loss_phases_and_findings() -> None:
    async with opened(feed.training(2000), NARROW) as screen:
        await screen.shows("● LIVE", "step 1,999", "loss", "step time", "data", "findings")
        assert "─ layers" not in screen.text and "cores" not in screen.text


async def test_at_20_by_5_it_says_so_and_still_tells_state_step_and_loss() -> None:
    async with opened(feed.training(2000), TINY) as screen:
        await screen.shows("LIVE", "1,999", "loss", "too small")


async def test_growing_and_shrinking_the_terminal_brings_panes_back() -> None:
    async with opened(feed.training(1000), TINY) as screen:
        await screen.shows("too small")
        await screen.pilot.resize_terminal(*WIDE)
        await screen.shows("layers", "step time", "loss")
        assert "too small" not in screen.text
        await screen.pilot.resize_terminal(*NARROW)
        await screen.until(lambda: "layers" not in screen.text, "the layers pane is gone")


async def test_what_a_log_does_not_have_leaves_its_room_to_the_rest() -> None:
    """As another tool's log: losses and step times, no phases, no layers, no host."""
    bare = [structs.replace(r, phases={}) if isinstance(r, Steps) else r for r in feed.training(800)]
    kept = [r for r in bare if isinstance(r, Hello | Steps | Scalars)]
    async with opened(kept) as screen:
        await screen.shows("no layer statistics measured", "no phases measured", "step time ms a step")
        loss, layers, phases = (screen.shown.query_one(kind) for kind in (LossPane, LayersPane, PhasesPane))
        await screen.until(lambda: layers.size.height <= 3, "one sentence for the layers")
        assert loss.size.height > 25
        assert phases.bar.size.height == 1 and phases.chart.size.height > 20
    async with opened(feed.training(800)) as screen:
        await screen.shows("healthy", "by phase")
        assert screen.shown.query_one(LayersPane).size.height > 8


async def test_an_accelerator_is_shown_and_without_one_that_is_said() -> None:
    async with opened(feed.training(500, gpu=True)) as screen:
        await screen.shows("NVIDIA H100", "gpu 0", "61.0 of 80.0 GiB", "alloc 0", "412 W")
    async with opened(feed.training(500)) as screen:
        await screen.shows("not measured")
        assert "0 W" not in screen.text


async def test_a_run_without_a_step_says_what_it_waits_for_and_draws_when_data_comes() -> None:
    async with opened([], output="/tmp/out.log") as screen:
        await screen.shows("WAITING", "waiting for the first step", "/tmp/out.log")
        screen.source.give([feed.hello(), feed.heartbeat(1.0, 0, phase="start", reason="no optimizer step yet")])
        await screen.shows("gpt-small", "no optimizer step yet")
        screen.source.give(feed.training(300)[1:])
        await screen.shows("step 299", "layers", "step time", "▸ loss")
        assert "waiting for" not in screen.text


async def test_new_steps_appear_by_themselves() -> None:
    async with opened(feed.training(500)) as screen:
        await screen.shows("step 499")
        screen.source.give([feed.steps(500, 20), feed.heartbeat(520 * feed.STEP_SECONDS, 520)])
        await screen.shows("step 519")


async def test_space_stops_the_picture_but_not_the_reading() -> None:
    async with opened(feed.training(500)) as screen:
        await screen.shows("step 499")
        await screen.pilot.press("space")
        screen.source.give([feed.steps(500, 132)])
        await screen.shows("PAUSED +132 steps", "step 499")
        await screen.pilot.press("space")
        await screen.shows("step 631")
        assert "PAUSED" not in screen.text


async def test_one_cursor_for_all_panes_and_escape_clears_it() -> None:
    async with opened(feed.training(1000)) as screen:
        await screen.shows("step 999")
        before = screen.text
        await screen.pilot.press("left", *["shift+left"] * 3)
        await screen.shows("loss step ")
        step = screen.overview.view.cursor
        assert step is not None and step < 999
        with screen.session.lock:
            assert screen.session.state.primary is not None
            series = screen.session.state.primary.series
            loss, duration = series["loss"].y_at(step), series["step_time"].y_at(step)
        assert loss is not None and f"{loss:.3f}" in screen.text
        assert duration is not None and f"{duration * 1e3:.0f} ms" in screen.text
        assert screen.text.count(f"{int(step):,}") >= 4, "the step stands in the title and under three charts"
        await screen.pilot.press("escape")
        await screen.until(lambda: "loss step" not in screen.text, "the cursor is gone")
        assert before.splitlines()[1] == screen.text.splitlines()[1]


async def test_zoom_and_tail() -> None:
    async with opened(feed.training(4000)) as screen:
        await screen.shows("step 3,999")
        await screen.pilot.press("plus", "plus")
        left, right = screen.overview.view.window
        assert left > 2500 and right >= 3999
        await screen.pilot.press("minus", "minus", "minus")
        assert screen.overview.view.window[0] == 0
        await screen.pilot.press("plus", *["left"] * 2, "0")
        assert screen.overview.view.cursor is None and screen.overview.view.span is not None
        await screen.pilot.press("0")
        assert screen.overview.view.span is None


async def test_y_and_e_are_said_in_the_title() -> None:
    async with opened(feed.training(1000)) as screen:
        await screen.shows("▸ loss")
        await screen.pilot.press("y")
        await screen.shows("▸ loss log")
        await screen.pilot.press("e")
        await screen.shows("strongly smoothed")
        await screen.pilot.press("e")
        await screen.shows("raw")


async def test_a_loss_that_is_nan_has_no_average_and_is_of_the_rank_that_is_said() -> None:
    async with opened(feed.training(400, nan_from=300)) as screen:
        await screen.shows("loss rank 0", "nan", "✕ 100")
        assert "avg" not in screen.text
        screen.app.workspace.view.show(200)
        await screen.shows("loss step 200, rank 0", "avg")


async def test_values_that_are_not_finite_are_counted_behind_the_loss_that_has_them() -> None:
    evaluations = [Scalars(t=0.3 * step, step=step, ordinal=step, values={"val/loss": math.nan}) for step in (400, 450)]
    async with opened([*feed.training(500, nan_from=400), *evaluations]) as screen:
        await screen.shows("loss    nan  ✕ 100  ◆ val/loss", "✕ 2")


async def test_tab_goes_round_the_panes_and_arrows_choose_a_layer() -> None:
    async with opened(feed.training(500)) as screen:
        await screen.shows("▸ loss")
        await screen.pilot.press("tab")
        await screen.shows("▸ layers")
        await screen.pilot.press("down", "down")
        await screen.shows("blocks.0.mlp.weight")
        await screen.pilot.press("shift+tab", "shift+tab")
        await screen.shows("▸ findings")


async def test_help_is_made_from_the_bindings_with_the_focused_pane_first() -> None:
    async with opened(feed.training(300)) as screen:
        await screen.shows("▸ loss")
        await screen.pilot.press("tab", "question_mark")
        assert isinstance(screen.pilot.app.screen, HelpScreen)
        await screen.shows("norm of the gradient", "this pane", "overview", "everywhere", "quit the viewer")
        assert screen.text.index("this pane") < screen.text.index("overview") < screen.text.index("everywhere")
        helped = {shown for _, keys in screen.pilot.app.screen.groups for shown, _ in keys}
        assert {"q", "?", "space", "y", "e", "tab", "+-", "0", "esc", "p", "t"} <= helped
        await screen.pilot.press("escape")
        assert isinstance(screen.pilot.app.screen, Overview)


async def test_a_finding_opens_its_card_and_n_shows_where_it_began() -> None:
    async with opened(feed.training(1500, nan_from=1200)) as screen:
        await screen.shows("✖ CRIT", "nonfinite-loss", "✕ 300")
        await screen.pilot.press("enter")
        assert isinstance(screen.pilot.app.screen, CardScreen)
        await screen.shows("Symptom", "Hypothesis", "Fix", "Evidence", "Confidence", "1,200")
        await screen.pilot.press("escape", "N", "n")
        current = screen.overview.view.cursor
        assert current is not None
        await screen.shows(f"loss step {current:,.0f}")


async def test_a_weightier_finding_takes_the_selection_unless_one_was_chosen() -> None:
    async with opened(feed.training(1000)) as screen:
        await screen.shows("▸ ○ INFO")
        screen.source.give(feed.training(1300, nan_from=1200)[1:][-6 * (1300 - 1000) // 10 :])
        await screen.shows("▸ ✖ CRIT")
        await screen.pilot.press("n", "n")
        await screen.shows("▸ ○ INFO")


async def test_a_phase_that_does_not_end_is_told_instead_of_the_rate() -> None:
    async with opened(feed.training(500)) as screen:
        await screen.shows("/s", "ETA")
        screen.source.give([feed.heartbeat(500 * feed.STEP_SECONDS + 40, 500, phase="data", age=40.0)])
        await screen.shows("in data for 40 s")
        assert "ETA" not in screen.text


async def test_a_loss_that_is_a_mean_of_micro_batches_says_so() -> None:
    records = [
        structs.replace(record, micro=pack("i4", [4] * record.count)) if isinstance(record, Steps) else record
        for record in feed.training(300)
    ]
    async with opened(records) as screen:
        await screen.shows("mean of 4 micro-batches")


async def test_a_long_card_scrolls_with_the_arrows_in_a_small_terminal() -> None:
    async with opened(feed.training(1500, nan_from=1200), NARROW) as screen:
        await screen.shows("nonfinite-loss")
        await screen.pilot.press("enter")
        await screen.shows("Symptom")
        assert "Reproduction" not in screen.text
        await screen.pilot.press("end")
        await screen.shows("Reproduction", "missing")


async def test_names_from_the_wire_neither_break_columns_nor_speak_to_the_terminal() -> None:
    names = ["模型.层.0.权重", "emoji.🚀🔥.weight", "esc.\x1b[31mred\x1b[0m.\x07bell", "plain.weight"]
    records = feed.training(300, layer_names=names)
    records[0] = feed.hello(title="训练 \x1b]0;owned\x07🚀 run")
    async with opened(records) as screen:
        await screen.shows("训练", "权重", "plain.weight")
        assert "\x1b" not in screen.text and "\x07" not in screen.text and "owned" not in screen.text
        for strip in screen.pilot.app.screen._compositor.render_strips():
            assert strip.cell_length == cell_width(strip.text) == 120


async def test_ascii_only_draws_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NTSTOP_ASCII", "1")
    async with opened(feed.training(500)) as screen:
        await screen.shows("* LIVE", "step 499", "layers")
        assert screen.text.isascii(), {character for character in screen.text if not character.isascii()}


async def test_sixteen_colours_and_none_show_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("NTSTOP_COLORS", "16"), ("NO_COLOR", "1")):
        monkeypatch.setenv(name, value)
        async with opened(feed.training(500, nan_from=400)) as screen:
            await screen.shows("● LIVE", "✖ CRIT", "nonfinite-loss", "data", "healthy")
        monkeypatch.delenv(name)


async def test_what_the_probe_could_not_do_is_shown() -> None:
    records = feed.training(300)
    warning = Event(t=95.0, kind="warning", text="the disk is full: recording has stopped", ordinal=290)
    async with opened([*records, warning]) as screen:
        await screen.shows("the disk is full")


async def test_an_unchanged_run_repaints_nothing() -> None:
    async with opened(feed.training(500)) as screen:
        await screen.shows("step 499", "layers")
        await screen.pilot.pause(1.5)
        pictures = {widget: widget.picture for widget in screen.overview.query("Chart, HeatMap, PhaseBar")}
        await screen.pilot.pause(1.5)
        assert {widget: widget.picture for widget in pictures} == pictures


async def test_p_saves_svg_and_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    async with opened(feed.training(300)) as screen:
        await screen.shows("step 299")
        await screen.pilot.press("p")
        await screen.until(lambda: len(list(tmp_path.glob("ntstop-*"))) == 2, "two files")
        assert "step 299" in next(tmp_path.glob("*.txt")).read_text()
        assert next(tmp_path.glob("*.svg")).read_text().startswith("<svg")
        await screen.pilot.press("p", "p")
        await screen.until(lambda: len(list(tmp_path.glob("ntstop-*"))) == 6, "also those of one second")


async def test_a_folder_that_cannot_be_written_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    async with opened(feed.training(300)) as screen:
        await screen.shows("step 299")
        monkeypatch.setattr(Path, "write_text", _refuse)
        await screen.pilot.press("p")
        await screen.shows("no picture", "No space left")


async def test_t_goes_round_the_themes() -> None:
    async with opened(feed.training(300)) as screen:
        first = screen.pilot.app.theme
        themes = []
        for _ in range(4):
            await screen.pilot.press("t")
            themes.append(screen.pilot.app.theme)
            await screen.shows("step 299", "▸ loss")
        assert len(set(themes)) == 4 and themes[-1] == first


async def test_q_ends_the_viewer_with_zero() -> None:
    async with opened(feed.training(300)) as screen:
        await screen.pilot.press("q")
        await screen.until(lambda: not screen.pilot.app.is_running, "the app has ended")
        assert screen.pilot.app.return_code == 0


def _refuse(path: Path, *_: object, **__: object) -> int:
    raise OSError(28, "No space left on device", str(path))
