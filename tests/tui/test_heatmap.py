"""The heat map of layers, the stacked phases and the sparkline: levels, names and sizes, checked by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from ntstop.sparkline import spark
from ntstop.tui.raster.heat import MOST_NAMES, HeatSpec, heat_box, heat_layers_at, heat_step_at, plot_heat
from ntstop.tui.raster.ink import Ink
from ntstop.tui.raster.names import group_rows
from ntstop.tui.raster.spec import Colours, Glyphs, Marker, Span
from ntstop.tui.raster.stack import Part, StackSpec, plot_stack, stack_step_at
from ntstop.tui.widgets.layers import LayerColumn, LayersPane, furthest

NAN, INF = math.nan, math.inf
any_float = st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True)
STEPS = np.arange(10.0)


def row_of(*values: float, **more: Any) -> tuple[str, list[int]]:
    """Glyphs and inks of one layer with these ten values, in ten cells of their own."""
    spec = HeatSpec(
        names=("w",), x=STEPS, values=np.array([values], np.float64), width=10, height=1, x_range=(0.0, 9.0), **more
    )
    picture = plot_heat(spec)
    return picture.text(), picture.ink[0].tolist()


def test_each_decade_outside_of_the_healthy_band_is_a_level_with_its_own_glyph_and_colour() -> None:
    glyphs, inks = row_of(1e-6, 5e-5, 5e-4, 1e-3, 3e-3, 1e-2, 5e-2, 0.5, 7.0, 0.0)
    assert glyphs == "▁▂▃▄▄▄▅▆▇0"
    ok = [Ink.HEAT_OK] * 3
    assert inks == [
        *(Ink.HEAT_LOW_3, Ink.HEAT_LOW_2, Ink.HEAT_LOW_1, *ok),
        *(Ink.HEAT_HIGH_1, Ink.HEAT_HIGH_2, Ink.HEAT_HIGH_3, Ink.HEAT_ZERO),
    ]


def test_a_terminal_without_colours_tells_the_same_levels_apart() -> None:
    assert row_of(1e-6, 5e-5, 5e-4, 1e-3, 3e-3, 1e-2, 5e-2, 0.5, 7.0, 0.0, glyphs=Glyphs.ASCII)[0] == "_.,---+*#0"


def test_missing_is_blank_and_what_is_not_finite_is_crossed() -> None:
    bad = np.array([[0, 0, 0, 0, 1, 0, 0, 0, 0, 0]])
    glyphs, _ = row_of(*[5e-3] * 4, NAN, INF, NAN, NAN, 5e-3, 5e-3, nonfinite=bad)
    assert glyphs == "▄▄▄▄✕✕  ▄▄"


def test_a_value_holds_until_the_next_but_not_over_a_hole() -> None:
    x = np.array([0.0, 10.0, 20.0, 60.0])
    spec = HeatSpec(names=("w",), x=x, values=np.full((1, 4), 5e-3), width=61, height=1, x_range=(0.0, 60.0))
    text = plot_heat(spec).text()[heat_box(spec).left :]
    held = text.replace("▄", "#")
    assert held[0] == "#" and held[-1] == "#"
    assert 0 < held.count(" ") < len(held) / 2
    assert " " not in held.strip("#").strip(" ")


def test_many_values_in_a_cell_are_averaged_in_the_logarithm() -> None:
    values = np.array([[1e-5, 1.0] * 50])
    spec = HeatSpec(names=("w",), x=np.arange(100.0), values=values, width=4, height=1, x_range=(0.0, 99.0))
    assert set(plot_heat(spec).text()) == {"▄"}


def test_of_many_layers_that_are_not_finite_none_is_called_the_furthest() -> None:
    names = ("tok.weight", "blocks.0.up.weight", "head.weight")
    pane = LayersPane()
    telling = np.ones(3, np.bool_)
    pane.column = LayerColumn(names, np.full(3, NAN, np.float32), np.array([False, True, False]), telling)
    assert ("blocks.0.up.weight", Ink.TEXT) in pane.values()[0]
    pane.column = LayerColumn(names, np.full(3, NAN, np.float32), np.array([True, True, False]), telling)
    assert [text for text, _ in pane.values()[0]] == ["2 of 3 layers", "not finite"]


def test_the_worst_layer_is_a_weight_that_did_not_begin_near_zero() -> None:
    names = ("a.weight", "norm.bias", "lora_B.weight", "b.weight")
    ratios = np.array([0.02, 103.0, 5.0, 0.2], np.float32)
    telling = np.array([True, False, False, True])
    assert furthest(LayerColumn(names, ratios, np.zeros(4, np.bool_), telling)) == 3
    ratios[1] = 0.0
    assert furthest(LayerColumn(names, ratios, np.zeros(4, np.bool_), telling)) == 3
    assert furthest(LayerColumn(names, ratios, np.zeros(4, np.bool_), np.zeros(4, np.bool_))) == 1


def test_a_layer_that_began_near_zero_is_drawn_no_louder_than_one_shade_above() -> None:
    values = np.array([[50.0] * 10, [50.0] * 10, [1e-6] * 10])
    spec = HeatSpec(
        names=("a.weight", "a.bias", "b.bias"), x=np.arange(10.0), values=values, quiet=np.array([False, True, True]),
        x_range=(0, 9), width=40, height=6,
    )  # fmt: skip
    picture, box = plot_heat(spec), heat_box(spec)
    inks = [int(picture.ink[box.top + row, box.left + 3]) for row in range(3)]
    assert inks == [Ink.HEAT_HIGH_3, Ink.HEAT_HIGH_1, Ink.HEAT_LOW_3]


def test_a_row_for_several_layers_shows_the_one_furthest_from_healthy() -> None:
    names = tuple(f"block.{index}.{part}" for index in range(2) for part in ("a", "b", "c"))
    values = np.full((6, 10), 5e-3)
    values[1], values[2], values[5] = 5e-4, 50.0, 5e-2
    spec = HeatSpec(names=names, x=STEPS, values=values, width=40, height=4, x_range=(0.0, 9.0))
    lines = plot_heat(spec).text().split("\n")
    assert lines[0] == "0 ×3   " + "▇" * 33
    assert lines[1] == "1 ×3   " + "▅" * 33


def test_names_drop_what_all_share_and_the_rows_say_how_many_they_hold() -> None:
    names = tuple(f"model.h.{block}.{part}.weight" for block in range(3) for part in ("attn", "mlp"))
    rows = group_rows((*names, "model.head.weight"), 4)
    assert rows.prefix == "model."
    assert rows.labels == ["h.0 ×2", "h.1 ×2", "h.2 ×2", "head.weight"]
    assert [members.tolist() for members in rows.members] == [[0, 1], [2, 3], [4, 5], [6]]
    assert group_rows(names[:2], 9).labels == ["attn.weight", "mlp.weight"]
    blocks = tuple(f"h.{block}.{part}" for block in range(12) for part in "ab")
    assert group_rows((*blocks, "head"), 6).labels[:2] == ["h.0…2 ×6", "h.3…4 ×4"]
    assert group_rows((*names, "model.head.weight"), 3).labels == ["h ×6", "head.weight"]


def test_a_long_name_loses_what_says_least() -> None:
    parts = ("attention_normalization", "attention_output", "mlp")
    blocks = [f"blocks.{block}.{part}.{kind}" for block in range(9) for part in parts for kind in ("weight", "bias")]
    names = ("embedding", *blocks)
    spec = HeatSpec(names=names, x=STEPS, values=np.full((55, 10), 5e-3), width=80, height=23)
    rows = plot_heat(spec).text().split("\n")
    assert heat_box(spec).left == MOST_NAMES
    assert rows[1].startswith("embedding…blocks ×3 ") and rows[2].startswith("b.0.attention_output… ×4 ")
    assert rows[3].startswith("b.1.attention…ization… ×4")


@given(st.lists(st.text("ab.1损\x1b", max_size=9), max_size=40), st.integers(0, 12))
def test_every_layer_is_in_exactly_one_row_whatever_the_names(names: list[str], most: int) -> None:
    rows = group_rows(tuple(names), most)
    assert len(rows.members) <= most and len(rows.labels) == len(rows.members)
    if most:
        assert sorted(index for members in rows.members for index in members.tolist()) == list(range(len(names)))


def test_wide_names_keep_the_cells_aligned() -> None:
    spec = HeatSpec(
        names=("损失层", "plain", "\x1b[31mred"), x=STEPS, values=np.full((3, 10), 5e-3), width=40, height=7
    )
    picture = plot_heat(spec)
    left = heat_box(spec).left
    assert all((picture.ink[row, left:] == Ink.HEAT_OK).all() for row in (1, 2, 3))
    assert "\x1b" not in picture.text()
    assert heat_step_at(spec, left) == 0.0 and heat_step_at(spec, 0) is None
    assert heat_layers_at(spec, 2) == [1] and heat_layers_at(spec, 0) == []


def test_a_heat_map_without_layers_says_so() -> None:
    assert "no layer statistics yet" in plot_heat(HeatSpec(width=60, height=8)).text()


@settings(max_examples=200, deadline=None)
@given(
    data=st.data(),
    layers=st.integers(0, 6),
    size=st.integers(0, 20),
    width=st.integers(0, 50),
    height=st.integers(0, 10),
    glyphs=st.sampled_from(Glyphs),
    colours=st.sampled_from(Colours),
)
def test_any_matrix_in_any_size_gives_a_picture_of_that_size(
    data: st.DataObject, layers: int, size: int, width: int, height: int, glyphs: Glyphs, colours: Colours
) -> None:
    spec = HeatSpec(
        names=tuple(data.draw(st.lists(st.text(max_size=12), min_size=layers, max_size=layers))),
        x=data.draw(arrays.arrays(np.float64, size, elements=any_float)),
        values=data.draw(arrays.arrays(np.float32, (layers, size), elements=st.floats(width=32))),
        x_range=data.draw(st.none() | st.tuples(any_float, any_float)),
        cursor_x=data.draw(st.none() | any_float),
        markers=(Marker(data.draw(any_float)),),
        width=width,
        height=height,
        glyphs=glyphs,
        colours=colours,
    )
    picture = plot_heat(spec)
    assert picture.codes.shape == (height, width)
    if glyphs is Glyphs.ASCII:
        assert picture.text().isascii()


def parts(**seconds: float) -> tuple[Part, ...]:
    return tuple(Part(name, STEPS, np.full(10, value)) for name, value in seconds.items())


def test_phases_are_stacked_in_their_order_with_their_shares() -> None:
    spec = StackSpec(parts=parts(backward=0.2, data=0.1, other=0.1), width=40, height=11, gutter=0)
    picture = plot_stack(spec)
    lines = picture.text().split("\n")
    assert lines[0].split() == ["█", "data", "25%", "█", "bwd", "50%", "█", "other", "25%"]
    column = picture.ground[1:9, 5].tolist()
    assert column == [Ink.PHASE_OTHER] * 2 + [Ink.PHASE_BACKWARD] * 4 + [Ink.PHASE_DATA] * 2
    assert any(line.endswith(" bwd ") for line in lines)


def test_letters_are_not_glued_to_words_and_shares_keep_their_columns() -> None:
    def legend(glyphs: Glyphs, **seconds: float) -> str:
        spec = StackSpec(parts=parts(**seconds), width=50, height=8, glyphs=glyphs)
        return plot_stack(spec).text().splitlines()[0].rstrip()

    few = {"data": 1.0, "forward": 20.0, "backward": 70.0, "optimizer": 3.0, "other": 6.0}
    assert legend(Glyphs.ASCII, **few) == "data  1% fwd 20% bwd 70% opt  3% .other  6%"
    assert legend(Glyphs.BRAILLE, **few) == "█data  1% █fwd 20% █bwd 70% █opt  3% █other  6%"
    assert legend(Glyphs.BRAILLE, **few | {"data": 40.0}).index("fwd") == legend(Glyphs.BRAILLE, **few).index("fwd")


def test_where_the_legend_has_no_room_for_all_the_smallest_share_goes() -> None:
    spec = StackSpec(
        parts=parts(data=2, forward=28, backward=51, optimizer=4, checkpoint=0.1, other=14.9), width=48, height=11
    )
    assert plot_stack(spec).text().split("\n")[0].split() == [
        "█data", "2%", "█fwd", "28%", "█bwd", "51%", "█opt", "4%", "█other", "15%"
    ]  # fmt: skip


def test_a_border_between_two_phases_is_drawn_in_eighths() -> None:
    spec = StackSpec(parts=parts(data=3, backward=13), width=30, height=5, gutter=0, legend=False)
    tall = plot_stack(StackSpec(parts=spec.parts, width=30, height=6, gutter=0, legend=False))
    # 4 rows are 32 eighths, of which data has 6.
    assert chr(tall.codes[3, 3]) == "▆"
    assert (tall.ink[3, 3], tall.ground[3, 3]) == (Ink.PHASE_DATA, Ink.PHASE_BACKWARD)


def test_without_height_there_is_one_bar_with_words_on_it() -> None:
    spec = StackSpec(parts=parts(data=0.5, forward=0.3, backward=0.2), width=40, height=1)
    assert plot_stack(spec).text() == " data 50%            fwd 30%     bwd 20%"
    letters = plot_stack(StackSpec(parts=spec.parts, width=10, height=2, colours=Colours.NONE)).text().split("\n")
    assert letters[1] == "dddddfffbb"
    assert stack_step_at(spec, 3) is None


def test_the_shares_are_those_of_the_cursor() -> None:
    grown = Part("data", STEPS, np.where(STEPS < 5, 0.0, 1.0))
    spec = StackSpec(parts=(grown, *parts(forward=1.0)), width=40, height=9, cursor_x=8.0, x_range=(0.0, 9.0))
    assert "data  50%" in plot_stack(spec).text()
    before = StackSpec(parts=spec.parts, width=40, height=9, cursor_x=1.0, x_range=(0.0, 9.0))
    assert "data 0.0%" in plot_stack(before).text()


def test_no_step_times_say_so_and_a_step_without_them_is_blank() -> None:
    assert "no step times yet" in plot_stack(StackSpec(width=40, height=8)).text()
    holes = Part("data", STEPS, np.where(STEPS == 5, NAN, 1.0))
    spec = StackSpec(parts=(holes,), width=10, height=8, gutter=0, x_range=(0.0, 9.0))
    assert (plot_stack(spec).ground[2] == Ink.NONE).sum() in (0, 1)


@settings(max_examples=150, deadline=None)
@given(
    data=st.data(),
    size=st.integers(0, 12),
    width=st.integers(0, 40),
    height=st.integers(0, 10),
    glyphs=st.sampled_from(Glyphs),
    colours=st.sampled_from(Colours),
)
def test_any_phases_in_any_size_give_a_picture_of_that_size(
    data: st.DataObject, size: int, width: int, height: int, glyphs: Glyphs, colours: Colours
) -> None:
    columns = arrays.arrays(np.float64, size, elements=any_float)
    spec = StackSpec(
        parts=tuple(Part(name, data.draw(columns), data.draw(columns)) for name in ("data", "未知", "backward")),
        x_range=data.draw(st.none() | st.tuples(any_float, any_float)),
        cursor_x=data.draw(st.none() | any_float),
        width=width,
        height=height,
        glyphs=glyphs,
        colours=colours,
    )
    assert plot_stack(spec).codes.shape == (height, width)


def test_a_sparkline_is_as_wide_as_asked_and_blank_where_nothing_is() -> None:
    assert spark(np.arange(8.0), 8) == "▁▂▃▄▅▆▇█"
    assert spark(np.arange(8.0), 4) == "▁▃▆█"
    assert spark(np.array([1.0, NAN, 1.0]), 5) == "  ▅ ▅"
    assert spark(np.array([0.5]), 3, low=0.0, high=1.0) == "  ▅"
    assert spark(np.arange(8.0), 8, True) == "_.-~=+*#"
    assert spark(np.array([]), 3) == "   " and spark(np.array([INF]), 2) == "  "


@given(arrays.arrays(np.float64, st.integers(0, 50), elements=any_float), st.integers(-1, 20), st.booleans())
def test_any_values_give_a_sparkline_of_that_width(values: Any, width: int, plain: bool) -> None:
    line = spark(values, width, plain)
    assert len(line) == max(width, 0)
    assert not plain or line.isascii()


@pytest.mark.parametrize("width", [20, 80, 200])
def test_the_rows_of_a_heat_map_are_exactly_as_wide_as_the_picture(width: int) -> None:
    spec = HeatSpec(names=("a",) * 30, x=STEPS, values=np.full((30, 10), 5e-3), width=width, height=12)
    assert {len(line) for line in plot_heat(spec).text().split("\n")} == {width}


@pytest.mark.parametrize(("glyphs", "line"), [(Glyphs.BRAILLE, "═"), (Glyphs.ASCII, "=")])
def test_the_span_of_a_finding_is_a_double_line_on_the_axis_of_phases_too(glyphs: Glyphs, line: str) -> None:
    part, span = Part("forward", np.arange(100.0), np.ones(100)), Span(40.0, 60.0, Ink.SPAN_WARNING)
    spec = StackSpec(parts=(part,), x_range=(0.0, 99.0), width=60, height=10, spans=(span,), glyphs=glyphs)
    picture = plot_stack(spec)
    assert picture.text().splitlines()[8].count(line) in (10, 11, 12)
    assert (picture.ground[8] == Ink.SPAN_WARNING).sum() in (10, 11, 12)
    outside = plot_stack(
        StackSpec(parts=(part,), x_range=(0.0, 99.0), width=60, height=10, spans=(Span(200.0, 300.0),))
    )
    assert "═" not in outside.text()
