"""`a`: a finding is acknowledged with a note, on every screen and for every viewer."""

from __future__ import annotations

from ntstop.notify import Notifier, Told
from ntstop.tui.widgets.findings import draw_findings
from ntstop.viewer_state import ViewerState
from tests.tui import feed
from tests.tui.opened import Screen, opened
from tests.tui.test_lines import finding


def test_an_acknowledged_row_says_so_in_a_word_and_with_its_note() -> None:
    row = draw_findings([finding()], 0, 100, 1, notes={"1": "known"}).text()
    assert "▲ ACK" in row and "known · smoothed loss moved" in row and "WARN" not in row
    silent = draw_findings([finding()], 0, 100, 1, notes={"1": ""}).text()
    assert "▲ ACK" in silent and " · " not in silent
    over = draw_findings([finding(status="resolved")], 0, 100, 1, notes={"1": "known"}).text()
    assert "ENDED" in over and "known" in over


async def write(screen: Screen, text: str) -> None:
    """Type a note into the line that is open."""
    await screen.shows("a note, or nothing")
    await screen.pilot.press(*("space" if letter == " " else letter for letter in text), "enter")


async def test_a_note_is_typed_kept_and_shown_and_taken_back() -> None:
    async with opened(feed.training(400, nan_from=300)) as screen:
        await screen.shows("CRIT", "nonfinite-loss")
        await screen.pilot.press("a")
        await write(screen, "q bad shard")
        await screen.shows("ACK", "q bad shard · ")
        kept = ViewerState("run-1").acknowledged
        assert [said.note for said in kept.values()] == ["q bad shard"]
        assert next(iter(kept)).startswith("nonfinite-loss")
        await screen.pilot.press("enter")
        await screen.shows("acknowledged: q bad shard", "Hypothesis")
        await screen.pilot.press("a")
        await screen.shows("acknowledge nonfinite-loss", "take back")
        await screen.pilot.press("ctrl+r", "escape")
        await screen.shows("CRIT")
        assert "ACK" not in screen.text and not ViewerState("run-1").acknowledged


async def test_what_another_viewer_says_is_shown_and_escape_keeps_nothing() -> None:
    async with opened(feed.training(400, nan_from=300)) as screen:
        await screen.shows("CRIT")
        await screen.pilot.press("a")
        await screen.shows("a note, or nothing")
        await screen.pilot.press("x", "escape")
        await screen.shows("CRIT")
        assert not ViewerState("run-1").acknowledged
        ViewerState("run-1").acknowledge(screen.session.findings[0].id, "seen elsewhere")
        await screen.shows("ACK", "seen elsewhere")


async def test_a_note_that_cannot_be_kept_is_said_and_stays_open() -> None:
    async with opened(feed.training(400, nan_from=300)) as screen:
        await screen.shows("CRIT")
        path = ViewerState("run-1").path
        assert path is not None
        path.parent.parent.mkdir(parents=True, exist_ok=True)
        path.parent.write_text("a file where the folder should be")
        await screen.pilot.press("a")
        await write(screen, "x")
        await screen.shows("the state of the viewers", "acknowledge nonfinite-loss")


async def test_a_notification_that_failed_is_on_the_status_line() -> None:
    async with opened(feed.training(400, nan_from=300), (160, 40)) as screen:
        command = "sh -c 'exit 3'"
        with Notifier(screen.session, Told(command)) as notifier:
            notifier.tell()
        await screen.shows("notify: exit code 3")
