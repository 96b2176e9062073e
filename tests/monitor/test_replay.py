"""A run that has ended is played again: the same records in the same order, findings as they came live."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np

from ntstop.diagnosis.engine import Engine
from ntstop.session import Session
from ntstop.sources.live import RunSource
from ntstop.sources.playing import time_of
from ntstop.sources.replay import SPEEDS, ReplaySource
from ntstop.sources.runs import read_run
from ntstop.tui.app import NtstopApp, screen_text
from ntstop.tui.facts import facts_of
from ntstop.tui.widgets.ranks import RanksPane
from ntstop.tui.workspace import Shown, Workspace
from ntstop_probe.wire import Steps
from tests.helpers import wait_until

from .writer import Writer, steps

NAN_AT = 600
STEPS = 1000
"""A step every 0.1 s: 100 s."""


def record(run: str = "run-1", *, rank: int | None = None) -> Writer:
    writer = Writer(run, rank=rank)
    for first in range(0, STEPS, 10):
        losses = [math.nan if place >= NAN_AT else 2.0 - place / STEPS for place in range(first, first + 10)]
        writer.send(steps(first, losses))
        writer.beat(first + 10)
    writer.exit()
    writer.close()
    return writer


def steps_of(session: Session) -> int:
    with session.lock:
        process = session.state.primary
        return process.steps if process else 0


def kinds_of(session: Session) -> set[str]:
    with session.lock:
        return {finding.kind for finding in session.findings}


def replaying(folder: Path) -> Session:
    session = Session(folder)
    session.start()
    assert session.wait_for_end()
    wait_until(session.begin_replay, what="a run that has ended")
    return session


def test_a_replay_gives_every_record_in_the_order_in_which_it_was_written() -> None:
    folder = record().folder.parent
    direct = RunSource(folder, live=False)
    recorded = list(itertools.chain.from_iterable(iter(lambda: direct.poll(0.0), [])))
    replay = ReplaySource(read_run(folder))
    played = []
    while not replay.status.complete:
        played += replay.poll(0.0)
    assert played == recorded


def test_ranks_are_merged_by_the_time_of_their_records() -> None:
    folders = [record(rank=rank).folder.parent for rank in range(3)]
    replay = ReplaySource(read_run(folders[0]))
    replay.seek(-0.5)
    played = []
    while not replay.settled or not played:
        played += replay.poll(0.0)
    last = {arrival.writer: time_of(arrival.record) for arrival in played if isinstance(arrival.record, Steps)}
    assert len(last) == 3
    assert max(last.values()) - min(last.values()) <= 2.0  # type: ignore[operator, type-var]


def test_seeking_back_shows_the_run_and_its_findings_as_they_were_then() -> None:
    session = replaying(record().folder.parent)
    try:
        replay = session.replay
        assert replay is not None
        assert "nonfinite-loss" in kinds_of(session)
        length = replay.end - replay.start
        replay.seek((30.0 - length) / length)
        wait_until(lambda: 280 <= steps_of(session) <= 310, what="the run at 30 s")
        assert "nonfinite-loss" not in kinds_of(session)
        replay.seek((65.0 - 30.0) / length)
        # The finding comes as soon as its step is read, some records before the moment that is shown.
        wait_until(lambda: 630 <= steps_of(session) <= 660, what="the run at 65 s")
        wait_until(lambda: "nonfinite-loss" in kinds_of(session), what="the finding at 65 s")
        with session.lock:
            found = next(finding for finding in session.findings if finding.kind == "nonfinite-loss")
        assert found.first_step == NAN_AT
    finally:
        session.stop()


def test_a_replay_that_stands_is_read_once_all_before_its_position_is() -> None:
    folder = record(rank=0).folder.parent
    record(rank=1)
    session = replaying(folder)
    try:
        replay = session.replay
        assert replay is not None
        length = replay.end - replay.start
        replay.seek((50.0 - length) / length)
        wait_until(lambda: session.is_read and steps_of(session) < STEPS, what="the run at 50 s")
        assert not session.status.complete
        pane, workspace = RanksPane(), Workspace([Shown(session)])
        with workspace.locked():
            look = workspace.look()
            assert look is not None
            assert not facts_of(session, look.process, look.view, None).is_catching_up
            pane.gather(look)
        assert max(row.lag for row in pane.found if row.lag is not None) <= 20
    finally:
        session.stop()


def test_going_through_a_replay_in_pieces_ends_with_the_state_and_the_findings_of_the_whole() -> None:
    folder = record().folder.parent
    whole = Session(folder)
    whole.load()
    session = replaying(folder)
    try:
        replay = session.replay
        assert replay is not None
        replay.seek(-1.0)
        wait_until(lambda: steps_of(session) == 0, what="the beginning")
        for _ in range(20):
            replay.seek(1 / 20)
            wait_until(lambda: replay.settled)
        wait_until(lambda: session.status.complete and steps_of(session) == STEPS)
        mine, theirs = session.state.primary, whole.state.primary
        assert mine is not None and theirs is not None
        for name, series in theirs.series.items():
            for one, other in zip(series.recent(STEPS), mine.series[name].recent(STEPS), strict=True):
                np.testing.assert_array_equal(one, other)
        assert [finding.id for finding in session.findings] == [finding.id for finding in whole.findings]
        assert isinstance(session.engine, Engine)
    finally:
        session.stop()


def test_it_plays_at_its_speed_and_stops_at_the_end() -> None:
    session = replaying(record().folder.parent)
    try:
        replay = session.replay
        assert replay is not None
        replay.change_speed(-len(SPEEDS))
        assert replay.speed == 1
        replay.change_speed(len(SPEEDS))
        assert replay.speed == 1000
        replay.toggle()
        # At the end it begins from the start.
        assert replay.playing
        wait_until(lambda: steps_of(session) == STEPS and not replay.playing, what="the end of a second")
        assert replay.position == replay.end
    finally:
        session.stop()


def test_the_time_between_two_positions_is_that_of_the_speed() -> None:
    replay = ReplaySource(read_run(record().folder.parent))
    replay.seek(-1.0)
    replay.toggle()
    first = replay.position
    wait_until(lambda: replay.position > first + 1.0)
    replay.toggle()
    stood = replay.position
    assert replay.position == stood < replay.end


def test_a_run_that_goes_on_is_not_replayed() -> None:
    writer = Writer("run-1")
    writer.train(0, 20)
    writer.beat(20)
    with Session(writer.folder.parent) as session:
        wait_until(lambda: session.entry is not None and session.status.complete)
        assert not session.begin_replay()
    writer.close()


async def test_the_keys_seek_play_and_set_the_speed_and_the_first_line_says_where_it_stands() -> None:
    with Session(record().folder.parent) as session:
        app = NtstopApp(session)
        async with app.run_test(size=(140, 40)) as pilot:

            async def wait_for(word: str) -> str:
                for _ in range(400):
                    if word in (text := screen_text(app.screen)):
                        return text
                    await pilot.pause(0.05)
                raise AssertionError(f"{word} did not come:\n{text}")

            await wait_for("FINISHED")
            await wait_for("nonfinite-loss")
            wait_until(lambda: session.entry is not None)
            for _ in range(20):
                await pilot.press("left_square_bracket")
            await wait_for("REPLAY 0:00 / ")
            await wait_for("×10")
            for _ in range(3):
                await pilot.press("greater_than_sign")
            await wait_for("×100")
            text = await wait_for("waiting for the first step")
            assert "nonfinite-loss" not in text
            await pilot.press("right_square_bracket")
            text = await wait_for("step 4")
            assert "nonfinite-loss" not in text
            await pilot.press("space")
            await wait_for("▶ REPLAY")
            await wait_for("nonfinite-loss")
