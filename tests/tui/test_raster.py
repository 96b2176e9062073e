"""Exact dots and rows of small charts, checked by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from ntstop.tui.raster.canvas import Canvas, characters
from ntstop.tui.raster.chart import plot, plot_box, x_at
from ntstop.tui.raster.columns import reduce_to_columns
from ntstop.tui.raster.ink import Ink
from ntstop.tui.raster.picture import Picture
from ntstop.tui.raster.scale import linear_ticks, steady_range, tick_labels, y_scale
from ntstop.tui.raster.spec import ChartSpec, Colours, Glyphs, Level, Marker, Span, Trace

NAN, INF = math.nan, math.inf
any_float = st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True)


def f(*values: float) -> NDArray[np.float64]:
    return np.array(values, np.float64)


def bare(*traces: Trace, width: int, height: int, **more: Any) -> ChartSpec:
    """A chart without gutter, legend and rounding: dots only (a height below 4 has no axis)."""
    given_range = {"x_range": (0.0, 1.0), "gutter": 0, "legend": False}
    return ChartSpec(traces=traces, width=width, height=height, **{**given_range, **more})


def dots(*columns: tuple[int, ...], rows: int) -> str:
    """Braille text of one cell row per four dots, from the dots (counted from the bottom) set in each dot column."""
    canvas = Canvas((len(columns) + 1) // 2, rows)
    for column, heights in enumerate(columns):
        for height in heights:
            canvas.fill(np.array([column]), f(height), f(height))
    codes = characters(canvas.cells(), Glyphs.BRAILLE)
    return "\n".join("".join(map(chr, row)).replace("\u2800", " ") for row in codes.tolist())


def test_a_dot_stands_where_braille_has_it() -> None:
    assert dots((3,), rows=1) == "⠁"
    assert dots((0,), rows=1) == "⡀"
    assert dots((), (2,), rows=1) == "⠐"
    assert dots((0, 1, 2, 3), (0, 1, 2, 3), rows=1) == "⣿"


def test_a_diagonal_is_one_dot_a_column() -> None:
    spec = bare(Trace(f(0, 1), f(0, 3)), width=2, height=1, y_range=(0.0, 3.0))
    assert plot(spec).text() == dots((0,), (1,), (2,), (3,), rows=1) == "⡠⠊"


def test_a_jump_between_neighbouring_columns_is_filled_vertically() -> None:
    spec = bare(Trace(f(0, 1), f(0, 7)), width=1, height=2, y_range=(0.0, 7.0))
    assert plot(spec).text() == dots((0, 1, 2, 3), (4, 5, 6, 7), rows=2)


def test_nan_breaks_the_line_and_is_marked_at_the_top_and_counted() -> None:
    x = f(0, 1, 2, 3, 4, 5, 6, 7)
    spec = bare(Trace(x, f(0, 0, 0, 0, NAN, INF, 0, 0)), width=4, height=2, x_range=(0.0, 7.0), y_range=(0.0, 7.0))
    picture = plot(spec)
    assert picture.text() == "  ✕ \n⣀⣀ ⣀"
    assert picture.ink[0, 2] == Ink.NONFINITE
    columns = reduce_to_columns(x, spec.traces[0].y, 0, 7, 8)
    assert columns.bad.tolist() == [4, 5] and columns.bad_count == 2
    assert columns.joined.tolist() == [False, True, True, True, False, True]


def test_a_single_point_between_nans_is_visible() -> None:
    spec = bare(Trace(f(0, 1, 2), f(NAN, 2, NAN)), width=3, height=3, x_range=(0.0, 2.0), y_range=(0.0, 4.0))
    rows = plot(spec).text().split("\n")
    assert rows[0] == "✕ ✕" and rows[1].strip("\u2800 ") != ""


def test_a_gap_is_not_a_mark_where_the_buckets_say_that_nothing_was_bad() -> None:
    trace = Trace(f(0, 1, 2, 3), f(1, NAN, 1, 1), nonfinite=np.array([0, 0, 0, 0]))
    picture = plot(bare(trace, width=2, height=3, x_range=(0.0, 3.0), y_range=(0.0, 2.0)))
    assert "✕" not in picture.text()
    columns = reduce_to_columns(trace.x, trace.y, 0, 3, 4, nonfinite=trace.nonfinite)
    assert columns.joined.tolist() == [False, False, True] and columns.bad_count == 0


def test_a_bucket_with_some_bad_values_is_counted_by_their_number_and_ends_its_line() -> None:
    columns = reduce_to_columns(f(0, 1, 2), f(1, 1, 1), 0, 2, 3, nonfinite=np.array([0, 7, 0]))
    assert columns.bad.tolist() == [1] and columns.bad_count == 7
    assert columns.joined.tolist() == [False, True, False]


def test_a_segment_that_goes_back_in_steps_is_a_line_of_its_own() -> None:
    columns = reduce_to_columns(f(0, 1, 2, 3, 1, 2), f(0, 1, 2, 3, 8, 9), 0, 3, 4, segment=np.array([0, 0, 0, 0, 1, 1]))
    assert columns.column.tolist() == [0, 1, 2, 3, 1, 2]
    assert columns.joined.tolist() == [False, True, True, True, False, True]


def test_a_new_segment_breaks_the_line_even_within_a_column_of_nans() -> None:
    columns = reduce_to_columns(f(0, 1, 2), f(1, NAN, 1), 0, 2, 3, segment=np.array([0, 0, 1]))
    assert columns.joined.tolist() == [False, False]


def test_many_points_in_a_column_keep_their_extremes_and_their_mean() -> None:
    x = np.linspace(0, 1, 1000)
    y = np.zeros(1000)
    y[500] = 99.0
    columns = reduce_to_columns(x, y, 0, 1, 4)
    assert len(columns.column) == 4
    assert columns.hi.max() == 99.0 and columns.lo.min() == 0.0
    assert columns.mean.max() == pytest.approx(99 / (columns.hi == 99.0).sum() / 333, rel=0.01)


def test_a_constant_curve_stands_in_the_middle() -> None:
    picture = plot(bare(Trace(f(0, 1), f(5, 5)), width=4, height=3, colours=Colours.NONE))
    rows = picture.text().split("\n")
    assert [any("\u2800" < character <= "\u28ff" for character in row) for row in rows] == [False, True, False]


def test_zero_points_say_so() -> None:
    text = plot(ChartSpec(width=40, height=8)).text()
    assert "no data yet" in text
    assert "no data yet" in plot(ChartSpec(traces=(Trace(f(), f()),), width=40, height=8)).text()


def test_on_a_log_axis_what_is_not_positive_is_left_out_and_the_legend_says_how_many() -> None:
    trace = Trace(f(0, 1, 2, 3, 4), f(1, 0, -1, 10, 100), label="loss")
    picture = plot(ChartSpec(traces=(trace,), width=60, height=12, log=True, x_range=(0.0, 4.0)))
    assert "2 ≤ 0 not shown" in picture.text() and "not finite" not in picture.text()
    labels = [row.split("┤")[0].strip() for row in picture.text().split("\n") if "┤" in row]
    assert labels == ["100", "10", "1"]


def test_the_axis_has_labels_of_one_width_at_nice_values() -> None:
    x = np.arange(100.0)
    rows = plot(ChartSpec(traces=(Trace(x, x / 37),), width=60, height=12)).text().split("\n")
    labelled = [row for row in rows if "┤" in row]
    assert {row.index("┤") for row in labelled} == {ChartSpec().gutter - 1}
    assert [row.split("┤")[0].strip() for row in labelled] == ["3", "2", "1", "0"]
    assert rows[-1].split() == ["0", "50", "100"]
    assert all(len(row) == 60 for row in rows)


def test_the_later_curve_is_drawn_over_the_earlier_and_both_keep_their_dots() -> None:
    below, above = Trace(f(0, 1), f(0, 0), ink=Ink.LINE_1), Trace(f(0, 1), f(3, 3), ink=Ink.LINE_2)
    picture = plot(bare(below, above, width=1, height=1, y_range=(0.0, 3.0)))
    assert picture.text() == "⣉" and picture.ink[0, 0] == Ink.LINE_2


def test_a_band_is_shaded_in_blocks_and_the_line_over_it_leaves_no_hole() -> None:
    trace = Trace(f(0, 1), f(4, 4), f(0, 0), f(7.999, 7.999))
    picture = plot(bare(trace, width=2, height=2, y_range=(0.0, 8.0)))
    assert (picture.ground == Ink.BAND_0).all()
    assert {Ink.LINE_0} == set(picture.ink[picture.codes > 0x2800].tolist()) - {Ink.BAND_0}


def test_the_edges_of_a_band_are_eighths_of_a_cell() -> None:
    trace = Trace(f(0, 1), f(12, 12), f(3, 3), f(20, 20))
    picture = plot(bare(trace, width=1, height=3, y_range=(0.0, 23.0)))
    # Eighths 3 to 20 of 24: the lowest cell is covered from its third eighth up, the highest up to its fifth.
    assert chr(picture.codes[0, 0]) == "▅" and chr(picture.codes[2, 0]) == "▃"
    assert picture.ink[:, 0].tolist() == [Ink.BAND_0, Ink.LINE_0, Ink.BACKDROP]
    assert picture.ground[:, 0].tolist() == [Ink.NONE, Ink.BAND_0, Ink.BAND_0]


def test_a_band_of_few_points_is_one_surface_between_them() -> None:
    trace = Trace(f(0, 1), f(9, 9), f(0, 0), f(9, 9))
    spec = bare(trace, width=10, height=2, y_range=(0.0, 9.0), colours=Colours.FEW)
    assert plot(spec).text().split("\n")[1] == "⣿" * 10


def test_spans_levels_markers_and_the_cursor_stand_where_they_belong() -> None:
    spec = ChartSpec(
        traces=(Trace(f(0, 10), f(0, 10)),),
        width=ChartSpec().gutter + 21,
        height=12,
        x_range=(0.0, 10.0),
        y_range=(0.0, 10.0),
        spans=(Span(2, 4),),
        markers=(Marker(6, "checkpoint"), Marker(8, "critical"), Marker(99, "warning")),
        levels=(Level(5.0, label="goal"), Level(8.0, 9.0)),
        cursor_x=5.0,
    )
    picture, box = plot(spec), plot_box(spec)
    rows = picture.text().split("\n")
    axis = rows[box.bottom]
    assert axis[box.left + 12] == "⚑" and axis[box.left + 16] == "✖" and "▲" not in axis
    assert (picture.ground[box.bottom - 1, box.left + 4 : box.left + 9] == Ink.SPAN).all()
    assert picture.ground[box.bottom - 1, box.left + 9] != Ink.SPAN
    assert any("goal" in row for row in rows)
    assert (picture.ground[box.top + 1] == Ink.HEALTHY).any()
    assert rows[box.top][box.left + 10] == "│" and "5" in rows[-1].split()
    assert x_at(spec, box.left + 10) == pytest.approx(5.0)
    assert x_at(spec, 0) is None


@pytest.mark.parametrize("level", [Level(5.0, label="goal"), Level(4.0, 9.0, label="goal")])
def test_the_label_of_a_level_is_read_whole_beside_the_curves_and_is_not_drawn_where_they_leave_no_room(
    level: Level,
) -> None:
    def drawn(y: NDArray[np.float64], **more: Any) -> str:
        trace = Trace(np.linspace(0, 10, 80), y, y, y)
        spec = ChartSpec(traces=(trace,), width=50, height=14, y_range=(0.0, 10.0), levels=(level,), **more)
        return plot(spec).text().replace("╌", " ")

    right = np.where(np.arange(80) > 50, np.arange(80) % 2 * 10.0, 0.0)
    assert " goal " in drawn(right) and " goal " in drawn(right, cursor_x=5.0)
    assert "goal" not in drawn(np.arange(80) % 2 * 10.0)


def test_the_legend_tells_the_value_at_the_cursor_and_a_nan_as_nan() -> None:
    trace = Trace(f(0, 1, 2, 3), f(4, 3, NAN, 1), label="train")
    spec = ChartSpec(traces=(trace,), width=60, height=8)
    assert "train 1.000" in plot(spec).text()
    for cursor, told in ((1.4, "train 3.000"), (2.0, "train nan"), (-1.0, "train –")):
        assert told in plot(ChartSpec(traces=(trace,), width=60, height=8, cursor_x=cursor)).text()


def test_a_foreign_label_does_not_push_the_columns_apart() -> None:
    trace = Trace(f(0, 1), f(0, 1), label="损失\x1b[31m🚀")
    picture = plot(ChartSpec(traces=(trace,), width=60, height=8))
    assert "损失🚀" in picture.text() and "\x1b" not in picture.text()
    assert picture.runs(0)[0].text.count(" ") == ChartSpec().gutter


def test_ascii_pictures_are_ascii() -> None:
    x = np.linspace(0, 1, 50)
    spec = ChartSpec(
        traces=(Trace(x, x, x - 1, x + 1, label="ä"), Trace(x, 1 - x, label="损失", ink=Ink.LINE_1)),
        markers=(Marker(0.5, "checkpoint"),),
        cursor_x=0.3,
        width=60,
        height=12,
        glyphs=Glyphs.ASCII,
    )
    text = plot(spec).text()
    assert text.isascii() and all(len(row) == 60 for row in text.split("\n"))
    assert "*" in text and ":" in text


def test_ascii_strokes_follow_the_shape_of_the_line() -> None:
    spec = bare(
        Trace(f(0, 1, 2, 3), f(0, 0, 7, 7)), width=2, height=2, x_range=(0, 3), y_range=(0, 7), glyphs=Glyphs.ASCII
    )
    rows = plot(spec).text().split("\n")
    assert rows == [" |", "| "]


def test_only_changed_cells_and_a_few_beside_them_are_named_and_only_in_their_rows() -> None:
    picture, other = Picture.blank(20, 3), Picture.blank(20, 3)
    assert other.changes(picture) == []
    other.write(1, 9, "ab")
    assert other.changes(picture) == [(1, 8, 16)]
    other.write(1, 17, "c")
    other.write(2, 0, "损")
    assert other.changes(picture) == [(1, 8, 20), (2, 0, 20)]
    assert len(Picture.blank(9, 3).changes(picture)) == 3


def test_a_growing_curve_repaints_a_few_cells_only() -> None:
    x = np.arange(1000.0)
    y = np.sin(x / 50)
    earlier, later = (
        plot(ChartSpec(traces=(Trace(x[:n], y[:n]),), width=100, height=20, x_range=(0.0, 1000.0))) for n in (700, 704)
    )
    assert sum(last - first for _, first, last in later.changes(earlier)) < 12


def test_blanks_in_front_of_a_text_hold_it_in_its_column() -> None:
    picture = Picture.blank(12, 1)
    assert picture.write(0, 1, "   850 µs") == 10
    assert picture.text() == "    850 µs  "
    assert Picture.blank(3, 1).write(0, 1, "    –") == 3


def test_a_picture_splits_into_runs_of_like_cells_and_wide_characters_stay_whole() -> None:
    picture = Picture.blank(6, 1)
    picture.write(0, 0, "a损b", Ink.STRONG)
    picture.write(0, 5, "c", Ink.DIM)
    assert [(run.text, run.ink) for run in picture.runs(0)] == [("a损b ", Ink.STRONG), ("c", Ink.DIM)]
    picture.ground[0, 4] = Ink.SPAN
    assert [run.text for run in picture.runs(0)] == ["a损b", " ", "c"]
    assert picture.write(0, 5, "损") == 5


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))
def test_a_steady_range_holds_what_it_is_for_and_seldom_moves(first: float, extent: float) -> None:
    low, high = steady_range(first, first + extent)
    assert low <= first and high >= first + extent
    assert high - low <= 1.3 * extent + 1e-6 * abs(first) + 1


@given(any_float, any_float, st.integers(1, 12))
def test_ticks_are_few_and_inside(a: float, b: float, most: int) -> None:
    if not (math.isfinite(a) and math.isfinite(b)):
        return
    scale = y_scale(min(a, b), max(a, b), False, most)
    ticks = scale.ticks(most)
    assert len(ticks) <= 2 * most + 2
    assert all(-1e-3 <= position <= 1.001 for position, _ in ticks)


def test_tick_labels_share_their_decimals_but_decades_stay_short() -> None:
    assert tick_labels([0.5, 1.0, 1.5]) == ["0.5", "1.0", "1.5"]
    assert tick_labels([0.001, 0.01, 0.1]) == ["0.001", "0.01", "0.1"]
    assert tick_labels([0.0, 2e-5, 4e-5]) == ["0", "2e-5", "4e-5"]
    assert tick_labels([20000.0, 22500.0]) == ["20.0k", "22.5k"]
    assert tick_labels([100.0, 10_000.0]) == ["100", "10k"]
    assert linear_ticks(0, 10, 5) == [0, 2, 4, 6, 8, 10]


@settings(max_examples=300, deadline=None)
@given(
    data=st.data(),
    size=st.integers(0, 30),
    width=st.integers(0, 40),
    height=st.integers(0, 12),
    log=st.booleans(),
    glyphs=st.sampled_from(Glyphs),
    colours=st.sampled_from(Colours),
)
def test_any_floats_in_any_size_give_a_picture_of_that_size(
    data: st.DataObject, size: int, width: int, height: int, log: bool, glyphs: Glyphs, colours: Colours
) -> None:
    def column() -> Any:
        return data.draw(arrays.arrays(np.float64, size, elements=any_float))

    def whole() -> Any:
        return data.draw(st.none() | arrays.arrays(np.int64, size, elements=st.integers(0, 3)))

    banded = data.draw(st.booleans())
    trace = Trace(
        column(),
        column(),
        column() if banded else None,
        column() if banded else None,
        nonfinite=whole(),
        segment=whole(),
        label=data.draw(st.text(max_size=8)),
    )
    points = Trace(trace.x, trace.y, kind="points", ink=Ink.LINE_1)
    spec = ChartSpec(
        traces=(trace, points),
        x_range=data.draw(st.none() | st.tuples(any_float, any_float)),
        y_range=data.draw(st.none() | st.tuples(any_float, any_float)),
        cursor_x=data.draw(st.none() | any_float),
        spans=(Span(data.draw(any_float), data.draw(any_float)),),
        markers=(Marker(data.draw(any_float)),),
        levels=(Level(data.draw(any_float), data.draw(st.none() | any_float)),),
        width=width,
        height=height,
        log=log,
        glyphs=glyphs,
        colours=colours,
    )
    picture = plot(spec)
    assert picture.codes.shape == (height, width)
    assert len(picture.text().split("\n")) == max(height, 1)
    if glyphs is Glyphs.ASCII:
        assert picture.text().isascii()


def test_an_empty_plot_says_whether_nothing_was_measured_or_nothing_of_it_is_finite() -> None:
    def said(*values: float) -> str:
        trace = Trace(f(*np.linspace(0.0, 1.0, len(values))), f(*values))
        return plot(bare(trace, width=40, height=6, empty="no loss measured yet")).text()

    assert "no loss measured yet" in said() and "no loss measured yet" not in said(1.0, 2.0)
    broken = said(NAN, INF, NAN)
    assert "nothing finite in view" in broken and "no loss measured yet" not in broken and "✕" in broken
