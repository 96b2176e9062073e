"""What a viewer that is left open must not keep: the boxes of what was said, and every region it ever painted."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest
from textual.widgets._toast import ToastHolder

from ntstop import upkeep
from ntstop.tui.screens.base import RunScreen
from ntstop.tui.widgets.chart import PictureWidget
from tests.tui import feed
from tests.tui.opened import opened


async def test_of_what_was_said_and_went_with_the_next_key_nothing_is_left() -> None:
    async with opened(feed.training(400)) as screen:
        await screen.shows("loss")
        for _ in range(3):
            await screen.pilot.press("6")
            await screen.shows("ranks: ")
            await screen.go("7")
            await screen.pilot.press("6")
            await screen.shows("ranks: ")
            await screen.go("1")

        def left() -> int:
            known = screen.app._installed_screens.values()
            return sum(len(each.query(ToastHolder)) for each in known if isinstance(each, RunScreen))

        await screen.until(lambda: left() == 0, f"no box is left of {left()}")


async def test_regions_that_are_painted_are_forgotten() -> None:
    async with opened(feed.training(400)) as screen:
        await screen.shows("loss")
        for _ in range(4):
            await screen.pilot.press("left", "+", "right", "-")
            await screen.pilot.pause(0.05)
        charts = list(screen.shown.query(PictureWidget).results())
        assert charts
        await screen.until(lambda: not any(chart._dirty_regions for chart in charts), "all is painted")


def test_what_is_new_is_collected_often_and_all_of_it_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []

    def noting(name: str) -> Callable[..., None]:
        return lambda *_: called.append(name)

    for name in ("collect", "freeze", "unfreeze", "set_threshold"):
        monkeypatch.setattr(gc, name, noting(name))
    kept = upkeep.Upkeep()

    def at(now: float) -> list[str]:
        called.clear()
        kept.tend(now)
        return called.copy()

    all_of_it = ["unfreeze", "collect", "freeze"]
    assert at(100.0) == ["set_threshold"]
    assert at(101.0) == []
    assert at(100.0 + upkeep.EVERY) == all_of_it
    assert at(100.0 + 2 * upkeep.EVERY) == ["collect"]
    assert at(100.0 + 2 * upkeep.EVERY) == []
    assert at(200.0 + upkeep.ALL_EVERY) == all_of_it
