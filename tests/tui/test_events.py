"""The events of a run: each once, in few words, all of the chosen one below, and chosen by the cursor."""

from __future__ import annotations

from ntstop.tui.widgets.events import EventsPane, event_text
from ntstop_probe.wire import Event, Heartbeat, ProbeStatus, Record
from tests.tui import feed
from tests.tui.opened import opened

SAVED = "/data/runs/a-rather-long-name-of-a-folder-in-which-all-is-kept/checkpoint-000100/model.pt"


def with_events(*events: Event) -> list[Record]:
    """A training of 400 steps in which these have happened."""
    return [*feed.training(400), *events]


async def test_a_checkpoint_that_was_seen_and_told_of_is_one_event_and_said_whole_below() -> None:
    seen = Event(30.0, "checkpoint", SAVED, 99, 100, 0.25, {"by": "torch.save"})
    told = Event(30.1, "checkpoint", SAVED, 99, 100)
    async with opened(with_events(seen, told), (120, 40)) as screen:
        await screen.go("8")
        await screen.shows("checkpoint", "250 ms")
        events = screen.shown.query_one(EventsPane)
        assert [row.event.kind for row in events.rows] == ["checkpoint"]
        # On two lines, the end of the path whole.
        await screen.shows("/data/runs/a-rather-long-name", "checkpoint-000100/model.pt")


async def test_the_cursor_takes_the_choice_along_to_what_had_happened_by_then() -> None:
    happened = [Event(step * 0.3, "checkpoint", f"/c/{step}.pt", step, step) for step in (100, 200, 300)]
    async with opened(with_events(*happened)) as screen:
        await screen.go("8")
        events = screen.shown.query_one(EventsPane)
        await screen.until(lambda: len(events.rows) == 3, "three events")
        screen.app.workspace.view.show(250)
        await screen.until(lambda: events.chosen is not None and events.chosen.step == 200, "the one before the cursor")
        events.focus()
        await screen.pilot.press("up", "enter")
        assert screen.app.workspace.view.cursor == 300
        await screen.until(lambda: events.chosen is not None and events.chosen.step == 300, "the one that was chosen")


async def test_a_run_ends_with_its_last_step_not_with_the_one_that_never_was() -> None:
    async with opened(with_events(Event(121.0, "exit", "", 400, data={"code": 0}))) as screen:
        await screen.go("8")
        events = screen.shown.query_one(EventsPane)
        await screen.until(lambda: len(events.rows) == 1, "the end")
        assert events.rows[0].step == 399


async def test_an_evaluation_says_what_it_has_measured() -> None:
    records = [*feed.training(1000), Event(150.0, "evaluation", "", 500, 500, 0.3), Event(270.0, "evaluation", "", 900)]
    async with opened(records) as screen:
        await screen.go("8")
        events = screen.shown.query_one(EventsPane)
        await screen.until(lambda: sum(row.event.kind == "evaluation" for row in events.rows) == 2, "both")
        told = {row.step: row.text for row in events.rows if row.event.kind == "evaluation"}
        assert told == {500: "val/loss 3.936", 900: ""}


async def test_how_often_the_probe_looks_is_said_beside_the_events_and_is_none_of_them() -> None:
    told: list[Record] = [
        Event(10.0 + step / 10, "sampling", "long words", step, data={"tier": tier, "layers": layers, "timing": 1})
        for step, tier, layers in ((100, "full", 2), (200, "no details", 10), (300, "no details", 10))
    ]
    beat = Heartbeat(130.0, 1.0, "forward", 0.1, 399, probe=ProbeStatus(layer_interval=10, tier="no details"))
    async with opened([*with_events(Event(31.0, "epoch", "", 99, 100)), *told, beat], (160, 40)) as screen:
        await screen.go("8")
        await screen.shows("every 10 steps since step 200: as often as the budget allows")
        await screen.shows("reading learning rates and norms in some steps only")
        events = screen.shown.query_one(EventsPane)
        assert [row.event.kind for row in events.rows] == ["epoch"]
        assert "no details" not in screen.text and "sampling" not in screen.text


def test_an_epoch_says_which_has_ended() -> None:
    assert event_text(Event(3.0, "epoch", data={"epoch": 7})) == "7 has ended" and not event_text(Event(4.0, "epoch"))
