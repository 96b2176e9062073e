"""The findings screen: the chosen finding, the curve that it rests on, its card; and what filters hide of them."""

from __future__ import annotations

import pytest
from msgspec import structs

from ntstop.session import Session
from ntstop.tui.app import NtstopApp
from ntstop.tui.screens.card import CardScreen
from ntstop.tui.traces import named_in
from ntstop.tui.widgets.evidence import EvidencePane, series_of
from ntstop_probe.wire import Hello
from tests.tui import feed
from tests.tui.opened import Screen, opened
from tests.tui.test_lines import finding
from tests.tui.test_snapshots import Judged


def test_evidence_names_a_curve_in_whole_or_by_its_last_part() -> None:
    known = ["loss", "phase/data", "host/process_rss"]
    assert named_in(["steps", "data"], known) == "phase/data"
    assert named_in([None, "process_rss"], known) == "host/process_rss"
    assert named_in(["loss"], known) == "loss" and named_in(["ss", ""], known) is None
    assert series_of(finding(where="data"), known) == "phase/data"


async def test_the_curve_of_the_chosen_finding_is_drawn_with_its_steps_shaded() -> None:
    async with opened(feed.training(400, nan_from=300), (120, 40)) as screen:
        await screen.go("7")
        await screen.shows("evidence loss", "nonfinite-loss")
        pane = screen.shown.query_one(EvidencePane)
        await screen.until(lambda: len(pane.spec.spans) == 1, "its span")
        assert (pane.spec.spans[0].x0, pane.spec.spans[0].x1) == (300.0, 399.0)


async def test_of_a_finding_in_one_rank_the_curve_is_that_of_the_rank() -> None:
    records = feed.training(300)
    judged = Judged()
    judged.findings = [finding(kind="straggler", rank=1, where="data", first_step=100, last_step=200)]
    with Session(feed.FedSource(records), engine=judged) as session:
        assert session.wait_for_end(30)
        with session.lock:
            first = next(record for record in records if isinstance(record, Hello))
            session.state.apply(8, structs.replace(first, rank=1, writer="node17-5001", pid=5001))
            for record in records:
                if not isinstance(record, Hello):
                    session.state.apply(8, record)
        async with NtstopApp(session).run_test(size=(120, 40)) as pilot:
            screen = Screen(pilot)
            await screen.until(lambda: screen.app.run_screen is not None, "a screen")
            await screen.go("7")
            await screen.shows("evidence rank 1 phase/data ms")


@pytest.mark.parametrize(("size", "first"), [((120, 40), "curves"), ((80, 14), "a card")])
async def test_where_the_card_is_on_the_screen_enter_goes_to_the_curves_at_once(
    size: tuple[int, int], first: str
) -> None:
    async with opened(feed.training(400, nan_from=300), size) as screen:
        await screen.go("7")
        await screen.shows("nonfinite-loss")
        await screen.pilot.press("enter")
        if first == "a card":
            await screen.until(lambda: isinstance(screen.app.screen, CardScreen), "the card")
            await screen.pilot.press("enter")
        await screen.until(lambda: screen.app.screen is screen.shown and screen.shown.TITLE == "curves", "the curves")
        assert screen.app.workspace.view.cursor == 300


async def test_what_the_filters_hide_is_on_no_card() -> None:
    async with opened(feed.training(400), (120, 40)) as screen:
        await screen.go("7")
        await screen.shows("unreproducible", "reproduction")
        await screen.pilot.press("v")
        await screen.shows("nothing that the filter lets through", "no finding is chosen")
        await screen.until(lambda: "cannot be repeated exactly" not in screen.text, "the hidden one is on no card")
        await screen.pilot.press("enter", "a")
        assert screen.app.screen is screen.shown
        await screen.pilot.press("v", "v")
        await screen.shows("cannot be repeated exactly")
        await screen.pilot.press("enter")
        await screen.until(lambda: screen.shown.TITLE == "curves", "its curves")


async def test_of_a_finding_in_a_layer_the_curve_is_that_of_the_layer() -> None:
    judged = Judged()
    judged.findings = [finding(kind="dead-layer", where="blocks.3.mlp", first_step=100, last_step=299)]
    with Session(feed.FedSource(feed.training(300)), engine=judged) as session:
        assert session.wait_for_end(30)
        async with NtstopApp(session).run_test(size=(120, 40)) as pilot:
            screen = Screen(pilot)
            await screen.until(lambda: screen.app.run_screen is not None, "a screen")
            await screen.go("7")
            await screen.shows("evidence gradient norm, blocks.3.mlp")
            pane = screen.shown.query_one(EvidencePane)
            assert pane.at.y is not None and 1e-4 < pane.at.y < 1e-1 and len(pane.spec.spans) == 1
