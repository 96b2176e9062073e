"""`m`: a step is marked with a note, which stands on the axis and among the events, for every viewer of the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from ntstop.tui.widgets.events import EventsPane
from ntstop.viewer_state import MOST_MARKS, StateError, ViewerState
from tests.tui import feed
from tests.tui.opened import Fed, opened

STAR = "★"


async def mark(screen: Fed, text: str) -> None:
    """Press m and type a note."""
    await screen.pilot.press("m")
    await screen.shows("mark step", "a note, or nothing")
    await screen.pilot.press(*("space" if letter == " " else letter for letter in text), "enter")


async def test_a_mark_is_drawn_listed_found_again_changed_and_removed() -> None:
    async with opened(feed.training(1000)) as screen:
        await screen.shows("loss")
        assert STAR not in screen.text
        screen.app.workspace.view.show(400)
        await mark(screen, "new data q")
        await screen.shows(STAR, "“new data q”")
        assert {step: said.note for step, said in ViewerState("run-1").marks.items()} == {400: "new data q"}
        await screen.pilot.press("escape")
        await screen.go("8")
        await screen.shows("note", "new data q")
        events = screen.shown.query_one(EventsPane)
        events.focus()
        await screen.pilot.press("home", *["down"] * len(events.rows))
        while events.chosen is None or events.chosen.event.kind != "note":
            await screen.pilot.press("up")
        await screen.pilot.press("enter")
        assert screen.app.workspace.view.cursor == 400
        await screen.pilot.press("m")
        await screen.shows("mark step 400", "ctrl+r: remove", "new data q")
        await screen.pilot.press("!", "enter")
        await screen.shows("new data q!")
        await screen.pilot.press("m", "ctrl+r")
        await screen.until(lambda: "new data" not in screen.text, "the note is gone")
        assert not ViewerState("run-1").marks
        await screen.go("1")
        assert STAR not in screen.text


async def test_without_a_cursor_the_newest_step_is_marked_and_near_a_mark_that_one_is_meant() -> None:
    async with opened(feed.training(1000)) as screen:
        await screen.shows("loss")
        await mark(screen, "end")
        assert list(ViewerState("run-1").marks) == [999]
        screen.app.workspace.view.show(996)
        await screen.pilot.press("m")
        await screen.shows("mark step 999", "remove")


async def test_what_another_viewer_notes_is_drawn_and_goes_when_they_remove_it() -> None:
    async with opened(feed.training(1000)) as screen:
        await screen.shows("loss")
        ViewerState("run-1").mark(300, "")
        await screen.shows(STAR)
        ViewerState("run-1").unmark(300)
        await screen.until(lambda: STAR not in screen.text, "the mark is gone")


async def test_escape_marks_nothing_and_a_mark_that_cannot_be_kept_is_said() -> None:
    async with opened(feed.training(1000)) as screen:
        await screen.shows("loss")
        await screen.pilot.press("m")
        await screen.shows("a note, or nothing")
        await screen.pilot.press("x", "escape")
        assert not ViewerState("run-1").marks
        path = ViewerState("run-1").path
        assert path is not None
        path.parent.parent.mkdir(parents=True, exist_ok=True)
        path.parent.write_text("a file where the folder should be")
        await mark(screen, "x")
        await screen.shows("the state of the viewers", "mark step")


def test_marks_have_an_end_and_foreign_text_is_made_harmless(home: Path) -> None:
    state = ViewerState("run-1")
    state.mark(7, "a\n\x1b[31mb")
    assert ViewerState("run-1").marks[7].note == "a b"
    state._kept.marks = {step: state.marks[7] for step in range(MOST_MARKS)}
    state._change(lambda kept: kept)
    with pytest.raises(StateError, match="at most"):
        state.mark(MOST_MARKS, "one more")
    state.mark(7, "changed")
    assert state.marks[7].note == "changed" and len(state.marks) == MOST_MARKS
