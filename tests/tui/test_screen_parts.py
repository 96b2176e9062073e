"""What the screens draw, without a terminal: tables, lines, histograms, ledgers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ntstop.run.state import RunState
from ntstop.text import cell_width
from ntstop.tui.raster.ink import Ink
from ntstop.tui.raster.table import Cell, Column, draw_table, fitting
from ntstop.tui.view import StepView
from ntstop.tui.widgets.distribution import Distribution, draw_distribution, quantiles
from ntstop.tui.widgets.holders import holders
from ntstop.tui.widgets.layer_table import folded
from ntstop.tui.widgets.ledger import ledger
from ntstop.tui.widgets.lines import Entry, laid_out, wrapped
from ntstop.tui.widgets.pane import Name, draw_title, value
from ntstop.tui.widgets.slowest import slowest_steps
from ntstop_probe.wire import Allocator, Hello, Manifest, Schema, Steps, pack

COLUMNS = (Column("name", least=8, keep=9, right=False), Column("a", 5, keep=3), Column("b", 5, keep=4))


def test_columns_go_in_the_order_of_their_weight() -> None:
    assert [fitting(COLUMNS, width) for width in (24, 23, 16, 2)] == [[0, 1, 2], [0, 2], [0], [0]]


def test_a_long_text_is_shortened_rather_than_left_out() -> None:
    columns = (Column("kind", 10, keep=8), Column("last", 6, keep=3), Column("what", keep=6, least=40, shrunk=15))
    assert [fitting(columns, width) for width in (62, 61, 29, 28)] == [[0, 1, 2], [0, 2], [0, 2], [0]]
    rows = draw_table(columns, 1, lambda _: [Cell("a"), Cell("b"), Cell("x" * 60, Ink.TEXT)], 40, 2).text().splitlines()
    assert [len(row.rstrip()) for row in rows] == [40, 40] and rows[1].endswith("x…")


def test_only_the_rows_in_view_are_made() -> None:
    asked = []

    def cells(index: int) -> list[Cell]:
        asked.append(index)
        return [Cell(f"row {index}"), Cell("1"), Cell("2")]

    picture = draw_table(COLUMNS, 100_000, cells, 40, 6, top=5_000, chosen=5_001)
    assert asked == [5_000, 5_001, 5_002, 5_003, 5_004]
    assert picture.text().splitlines()[2].startswith("▸ row 5001")


@pytest.mark.parametrize("falling", [True, False])
def test_the_column_that_is_sorted_by_has_its_arrow_however_narrow_it_is(falling: bool) -> None:
    columns = (Column("× peers", 7), Column("step time", 9), Column("data", 5))
    for place, heading in enumerate(("× peer", "step tim", "data")):
        cells = [Cell("1.00")] * len(columns)
        picture = draw_table(columns, 1, lambda _, cells=cells: cells, 40, 2, sorted_by=place, falling=falling)  # type: ignore[misc]
        assert heading + ("▾" if falling else "▴") in picture.text().splitlines()[0]


@given(st.text(max_size=60), st.integers(1, 40))
def test_wrapped_lines_keep_their_width(text: str, width: int) -> None:
    assert all(cell_width(line) <= max(width, 2) for line in wrapped(text, width))


def test_a_long_entry_goes_on_below_its_beginning() -> None:
    lines = laid_out([Entry("command", "python train.py --rate 1e-3 --steps 100")], 40)
    assert [(label, text) for label, text, _ in lines] == [
        ("command", "python train.py --rate"),
        ("", "1e-3 --steps 100"),
    ]


def test_parameters_of_one_module_are_one_row() -> None:
    names = ("embed", "blocks.0.attn.weight", "blocks.0.attn.bias", "blocks.1.mlp.weight")
    assert folded(names, "modules") == {"embed": [0], "blocks.0.attn": [1, 2], "blocks.1.mlp": [3]}
    assert folded(names, "parts") == {"embed": [0], "blocks.0": [1, 2], "blocks.1": [3]}


def test_a_histogram_counts_every_step_and_names_its_tail() -> None:
    told = Distribution(np.sort(np.array([0.1] * 90 + [0.2] * 9 + [5.0])))
    assert sum(number for _, number in told.bins(10)) == 100
    rows = draw_distribution(told, 60, 10).text().splitlines()
    assert "p50" in rows[0] and "90%" in rows[0]
    assert rows[-1].startswith("≥") and "10%" in rows[-1] and "p99" in rows[-1]


def test_a_few_long_steps_do_not_squeeze_all_others_into_one_bar() -> None:
    told = Distribution(np.sort(np.concatenate([np.linspace(0.064, 0.074, 95), np.linspace(0.2, 0.24, 5)])))
    assert sum(number > 5 for _, number in told.bins(12)) > 4


def test_the_row_of_the_step_at_the_cursor_is_pointed_at() -> None:
    told = Distribution(np.sort(np.array([0.1] * 90 + [0.2] * 9 + [5.0])))
    rows = draw_distribution(told, 60, 10, at=("1,234", 0.1)).text().splitlines()
    assert [row for row, text in enumerate(rows) if "◂ 1,234" in text] == [0] and "p50" in rows[0]
    assert "◂ 1,234" in draw_distribution(told, 40, 10, at=("1,234", 9.0)).text().splitlines()[-1]


def test_quantiles_of_one_unit_tell_it_once() -> None:
    def told(*seconds: float) -> list[str]:
        found = quantiles(Distribution(np.sort(np.array(seconds))))
        return [" ".join(text for text, _ in pieces) for pieces in found]

    assert told(*[0.0689] * 90, *[0.081] * 8, 0.233, 0.233) == ["p50 68.9", "p95 81.0", "p99 233 ms"]
    assert told(*[0.5] * 90, *[2.0] * 10) == ["p50 500 ms", "p95 2.00 s", "p99 2.00 s"]
    assert told() == []


def test_a_value_that_is_not_known_keeps_its_place_in_a_title() -> None:
    titles = [draw_title("loss", [value(text.rjust(6))], 30).text() for text in ("1.0", "–")]
    assert [title.index(text) for title, text in zip(titles, ("1.0", "–"), strict=True)] == [25, 27]


def test_a_note_loses_its_last_words_before_the_value_goes() -> None:
    titles = [
        draw_title("loss", [value("1.234")], width, note="step 12, log, rank 0").text() for width in (50, 33, 27, 12)
    ]
    assert [[part in title for part in ("step 12", "log", "rank 0", "1.234")] for title in titles] == [
        [True, True, True, True],
        [True, True, False, True],
        [True, False, False, True],
        [False, False, False, False],
    ]


def test_a_note_loses_its_last_words_before_a_name_is_cut_short() -> None:
    told = [(("━━", Ink.LINE_0), (Name(name), Ink.TEXT), ("4.745", Ink.STRONG)) for name in ("loss", "val/loss")]
    titles = [draw_title("loss", told, width, note="step 0, 600 steps").text() for width in (70, 58, 50)]
    assert [[part in title for part in ("step 0", "600 steps", "val/loss")] for title in titles] == [
        [True, True, True],
        [True, False, True],
        [True, False, False],
    ]


def process(**manifest: object) -> RunState:
    state = RunState()
    state.apply(
        1,
        Hello(1, "run", "w", "host", "boot", "ns", 1, 1.0, 0, 0.0, 1.7e9, manifest=Manifest(**manifest)),  # type: ignore[arg-type]
    )
    return state


def test_the_ledger_tells_estimates_from_what_is_left() -> None:
    state = process(optimizers=[{"class": "AdamW", "groups": [{}]}])
    state.apply(
        1, Schema(1, ["a", "b"], [1000, 500], ["torch.float32", "torch.bfloat16"], [False, True], [True, False])
    )
    state.apply(1, Allocator(1.0, 0, allocated=30_000, reserved=40_000))
    assert state.primary is not None
    shares, total, of = ledger(state.primary)
    assert [(share.name, share.size, share.basis) for share in shares] == [
        ("weights", 5000.0, "estimated"),
        ("gradients", 4000.0, "estimated"),
        ("optimizer", 8000.0, "estimated"),
        ("activations, rest", 13000.0, "difference"),
    ]
    assert (total, of) == (30_000, "device 0")


def test_the_parts_of_the_model_share_what_the_ledger_estimates() -> None:
    state = process(optimizers=[{"class": "SGD", "groups": [{"momentum": 0.9}]}])
    names = ["h.0.attn.weight", "h.0.mlp.weight", "h.1.mlp.weight", "head"]
    state.apply(1, Schema(1, names, [1000, 500, 3000, 10], ["torch.float32"] * 4, [False] * 3 + [True], [True] * 4))
    assert state.primary is not None
    found = holders(state.primary)
    assert [(holder.name, holder.numel, holder.bytes) for holder in found] == [
        ("h.1", 3000, 36_000.0),
        ("h.0", 1500, 18_000.0),
        ("head", 10, 40.0),
    ]
    assert sum(holder.bytes for holder in found) == sum(share.size for share in ledger(state.primary)[0])
    assert found[2].frozen and sum(holder.share for holder in found) == 1.0


def test_an_optimizer_that_is_not_known_is_not_guessed() -> None:
    state = process(optimizers=[{"class": "MyOwn"}])
    state.apply(1, Schema(1, ["a"], [1000]))
    assert state.primary is not None
    assert [share.name for share in ledger(state.primary)[0]] == ["weights", "gradients"]


def test_the_slowest_steps_say_what_they_waited_for() -> None:
    state = process()
    seconds = [0.1] * 50
    data = [0.01] * 50
    seconds[20], data[20] = 2.0, 1.9
    state.apply(
        1,
        Steps(
            50, 0, pack("f8", [float(i) for i in range(50)]), duration=pack("f4", seconds),  # type: ignore[arg-type]
            phases={"data": pack("f4", data), "backward": pack("f4", [0.05] * 50)},  # type: ignore[dict-item]
        ),
    )  # fmt: skip
    assert state.primary is not None
    view = StepView(first=0, last=49)
    found, of = slowest_steps(state.primary, view)
    assert of == 50 and found[0].step == 20 and found[0].longest is not None
    assert found[0].longest[0] == "data" and found[0].longest[1] > 0.9
    assert found[0].times_median == np.float32(2.0) / np.float32(0.1) or abs(found[0].times_median - 20) < 0.01
