"""The shared step axis."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ntstop.tui.view import StepView


def test_the_whole_run_is_shown_until_someone_zooms() -> None:
    view = StepView()
    view.extend(0, 12_340)
    left, right = view.window
    assert left == 0
    assert 12_340 <= right <= 12_340 * 1.1


def test_the_axis_stands_still_while_the_curve_grows_into_free_space() -> None:
    view = StepView()
    windows = set()
    for last in range(10_000, 11_000):
        view.extend(0, last)
        windows.add(view.window)
    assert len(windows) <= 3


def test_zoomed_in_the_tail_is_followed_and_a_cursor_holds_the_place() -> None:
    view = StepView()
    view.extend(0, 1000)
    view.zoom(0.5)
    view.zoom(0.5)
    left, right = view.window
    assert 950 <= right <= 1100 and right - left < 300
    view.show(100)
    assert view.window[0] <= 100 <= view.window[1]
    view.extend(0, 5000)
    assert view.window[0] <= 100 <= view.window[1]
    view.follow()
    assert view.cursor is None and view.window[1] >= 5000


def test_follow_twice_shows_the_whole_run_again() -> None:
    view = StepView()
    view.extend(0, 1000)
    view.zoom(0.1)
    view.follow()
    assert view.window[0] == 0


def test_paused_the_picture_ends_where_the_run_stood() -> None:
    view = StepView()
    view.extend(0, 1000)
    before = view.window
    view.pause()
    view.extend(0, 2000)
    assert view.window == before and view.shown_last == 1000
    view.pause()
    assert view.window[1] >= 2000


def test_the_cursor_starts_at_the_newest_step_and_moves_by_columns() -> None:
    view = StepView()
    view.extend(0, 1000)
    view.move_cursor(-1, 100)
    assert view.cursor == 1000
    view.move_cursor(-1, 100)
    assert view.cursor == 990
    view.move_cursor(-1, 10_000)
    assert view.cursor == 989


@given(
    last=st.integers(0, 10**7),
    keys=st.lists(st.sampled_from(["+", "-", "<", ">", "<<", "0", "pause", "grow"]), max_size=40),
)
def test_whatever_is_pressed_the_axis_has_width_and_the_cursor_is_on_it(last: int, keys: list[str]) -> None:
    view = StepView()
    view.extend(0, last)
    for key in keys:
        match key:
            case "+":
                view.zoom(0.5)
            case "-":
                view.zoom(2)
            case "<":
                view.move_cursor(-1, 60)
            case ">":
                view.move_cursor(1, 60)
            case "<<":
                view.move_cursor(-10, 60)
            case "0":
                view.follow()
            case "pause":
                view.pause()
            case "grow":
                view.extend(0, view.last + 17)
        left, right = view.window
        assert right > left
        if view.cursor is not None:
            assert left - 1e-6 <= view.cursor <= right + 1e-6
