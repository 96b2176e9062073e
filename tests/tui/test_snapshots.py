"""Every screen at four sizes, row by row, as it was last looked at and found good: `tests/data/screens/`.

After a change that is meant, write them anew and look at the difference:

    SNAPSHOTS=write python -m pytest tests/tui/test_snapshots.py && git diff tests/data/screens
"""

from __future__ import annotations

import contextlib
import difflib
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ntstop.diagnosis.engine import Engine
from ntstop.diagnosis.finding import Claim, Evidence, Finding
from ntstop.session import Session
from ntstop.tui.app import NtstopApp
from ntstop_probe.wire import Hello
from tests.tui import feed
from tests.tui.opened import Screen

FOLDER = Path(__file__).parents[1] / "data" / "screens"
SIZES = ((60, 20), (80, 24), (120, 40), (200, 60))
SCREENS = {
    "overview": ("1",),
    "curves": ("2",),
    "layers": ("3",),
    "step": ("4",),
    "memory": ("5",),
    "ranks": ("6",),
    "findings": ("7",),
    "run": ("8",),
    "card": ("1", "n", "enter"),
    "help": ("1", "question_mark"),
}
"""The keys that lead to each."""
STEPS = 1200
LIMIT = 30.0
"""Seconds that a screen may take to come to rest."""


def findings() -> list[Finding]:
    """Made up: what rules say, and in which words, is not what is looked at here."""
    dead = Claim(
        "the gradient of 2 of 12 layers is exactly 0 since step 900; it ends at blocks.3.mlp",
        "The units of blocks.3.mlp never fire: a bias that went far below zero, or a rate that is too high.",
        "Look at the bias of blocks.3.mlp; try a lower rate, or a leaky activation.",
        "high; a gradient that comes back would change it",
        [Evidence("the gradient of blocks.3.mlp.weight is 0 in 30 samples", "loss", 900, 0.0)],
        ["Was the layer trained before step 900 at all?"],
    )
    slow = Claim("the loader takes 41 % of the step, 12 % before step 800", "few workers", "num_workers=4", "medium")
    seed = Claim("cannot be repeated exactly: no seed", "", "set a seed", "high")
    given: list[Any] = [
        ("1", "dead-layer", "critical", "optimization", "optimization", 900, STEPS - 1, 0, "blocks.3.mlp", dead),
        ("2", "input-bound", "warning", "input", "pipeline", 800, STEPS - 1, None, "phase/data", slow),
        ("3", "unreproducible", "info", "reproducibility", "pipeline", 0, 0, None, "manifest", seed),
    ]
    return [Finding(*parts, writer=feed.WRITER) for parts in given]


class Judged:
    """An engine that has found just that, and is the real one in all else."""

    def __init__(self) -> None:
        self.engine, self.findings, self.version = Engine(), findings(), 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["engine"], name)


@pytest.fixture(autouse=True)
def one_terminal_and_one_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The same colours and the same time of day wherever this runs."""
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@contextlib.asynccontextmanager
async def shown(size: tuple[int, int]) -> AsyncIterator[Screen]:
    """The app on a run of two ranks that is read to its end and from which nothing more comes."""
    records = feed.training(STEPS, gpu=True)
    with Session(feed.FedSource(records), engine=Judged()) as session:
        assert session.wait_for_end(30)
        session.stop()
        with session.lock:
            first = next(record for record in records if isinstance(record, Hello))
            session.state.apply(8, structs.replace(first, rank=1, writer="node17-5001", pid=5001))
            for record in feed.training(STEPS - 50, gpu=True):
                if not isinstance(record, Hello):
                    session.state.apply(8, record)
            for process in session.state.processes.values():
                # How long it has been silent is another number in every second.
                process.heartbeat_arrival = None
        async with NtstopApp(session).run_test(size=size) as pilot:
            screen = Screen(pilot)
            await screen.until(lambda: screen.app.run_screen is not None, "a screen")
            yield screen


async def at_rest(screen: Screen, wanted: str) -> str:
    """The text once it is what is wanted; else, after a while, what it has come to."""
    text, since, deadline = "", 0, time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        screen.shown.redraw()
        await screen.pilot.pause()
        before, text = text, screen.text
        since = since + 1 if text == before else 0
        if text == wanted or (not wanted and since >= 5):
            return text
        await screen.pilot.pause(0.02)
        if wanted and since >= 100:
            break
    return text


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_every_screen_looks_as_it_did(size: tuple[int, int]) -> None:
    is_writing = os.environ.get("SNAPSHOTS") == "write"
    wrong: list[str] = []
    async with shown(size) as screen:
        for name, (digit, *keys) in SCREENS.items():
            path = FOLDER / f"{name}-{size[0]}x{size[1]}.txt"
            await screen.go(digit, *keys)
            wanted = path.read_text(encoding="utf-8") if path.exists() and not is_writing else ""
            text = await at_rest(screen, wanted)
            if is_writing:
                path.parent.mkdir(exist_ok=True)
                path.write_text(text, encoding="utf-8")
            elif text != wanted:
                wrong += difflib.unified_diff(
                    wanted.splitlines(),
                    text.splitlines(),
                    f"{path.name}, as it was",
                    f"{path.name}, now",
                    n=1,
                    lineterm="",
                )
            if keys:
                await screen.pilot.press("escape", "escape")
    assert not wrong, "\n".join([*wrong, "", *(__doc__ or "").splitlines()[2:]])
