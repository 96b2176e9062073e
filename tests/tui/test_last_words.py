"""Of a run that is heard of no more it is told where it was last: on the status line, and with its stack."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from ntstop.session import Session
from ntstop.tui.app import NtstopApp
from ntstop.tui.facts import facts_of, status_parts
from ntstop.tui.view import StepView
from ntstop.tui.widgets.probe import probe_entries
from ntstop.tui.widgets.statusline import draw_status
from ntstop.tui.workspace import extent
from ntstop_probe.wire import Heartbeat, Stack
from tests.monitor.writer import EPOCH, Writer
from tests.tui.opened import Screen


def test_a_run_that_died_says_its_step_its_last_phase_and_its_last_stack() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    writer = Writer(pid=gone.pid)
    writer.train(0, 40)
    frames = ["<module> (/home/me/train.py:9)", "step (/home/me/project/loop.py:12)"]
    writer.send(Heartbeat(EPOCH + 40, 0.0, "backward", 7.5, 40, [Stack("MainThread", frames)]))
    writer.close()
    with Session(writer.folder.parent) as session:
        assert session.wait_for_end(30)
        with session.lock:
            process = session.state.primary
            assert process is not None
            facts = facts_of(session, process, StepView(first=0, last=39), None)
            told = [(entry.label, entry.text) for entry in probe_entries(session, process)]
    line = draw_status(*status_parts(facts), 100).text()
    assert "✖ DIED" in line and "step 39" in line and "last in backward" in line
    assert told[0] == ("last seen", "in backward for 7.50 s, 40 steps")
    assert told[1] == ("MainThread", "step (…/project/loop.py:12)")


def test_of_a_later_attempt_that_ends_earlier_its_own_step_is_told() -> None:
    first, second = Writer(), Writer(attempt=1)
    for writer, count in ((first, 150), (second, 100)):
        writer.train(0, count)
        writer.close()
    with Session(first.folder.parent) as session:
        assert session.wait_for_end(30)
        with session.lock:
            process = session.state.primary
            assert process is not None and extent(process)[1] == 149
            view = StepView(first=0, last=149)
            facts = facts_of(session, process, view, None)
            view.cursor, view.frozen = 50.0, 60.0
            stopped = facts_of(session, process, view, None)
    line = draw_status(*status_parts(facts), 100).text()
    assert "attempt 2" in line and "step 99" in line
    assert stopped.step == 60


async def test_of_a_process_that_is_gone_it_is_said_that_it_has_no_stacks_any_more() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    writer = Writer(pid=gone.pid)
    writer.train(0, 40)
    writer.close()
    with Session(writer.folder.parent) as session:
        assert session.wait_for_end(30)
        async with NtstopApp(session).run_test(size=(120, 40), notifications=True) as pilot:
            screen = Screen(pilot)
            await screen.until(lambda: screen.app.run_screen is not None, "a screen")
            await screen.shows("DIED")
            await pilot.press("D")
            await screen.shows(f"pid {gone.pid} is gone: it has no stacks any more")


def test_a_run_that_is_followed_by_its_recording_says_so() -> None:
    writer = Writer()
    writer.train(0, 40)
    writer.beat(40)
    with Session(writer.folder.parent) as session:
        assert session.wait_for_end(30)
        with session.lock:
            facts = facts_of(session, session.state.primary, StepView(first=0, last=39), None)
    writer.close()
    assert facts.state == "live" and facts.is_from_disk
    assert "from disk" in draw_status(*status_parts(facts), 100).text()


def test_before_there_is_evidence_a_recording_is_read_and_nothing_is_called_live() -> None:
    writer = Writer()
    writer.train(0, 40)
    writer.beat(40)
    writer.close()
    with Session(writer.folder.parent) as session:
        assert session.wait_for_end(30)
        with session.lock:
            session.entry = None
            facts = facts_of(session, session.state.primary, StepView(first=0, last=39), None)
    line = draw_status(*status_parts(facts), 100).text()
    assert "READING" in line and "step 39" in line
    assert "LIVE" not in line and "/s" not in line


@pytest.mark.parametrize(("is_complete", "says"), [(False, True), (True, False)])
def test_while_what_was_recorded_is_read_the_step_is_not_shown_as_that_of_the_run(
    is_complete: bool, says: bool
) -> None:
    writer = Writer()
    writer.train(0, 40)
    writer.close()
    with Session(writer.folder.parent) as session:
        assert session.wait_for_end(30)
        session.stop()
        session.status = replace(session.status, complete=is_complete)
        with session.lock:
            facts = facts_of(session, session.state.primary, StepView(first=0, last=39), None)
    line = draw_status(*status_parts(facts), 100).text()
    assert ("… reading" in line) == says and "step 39" in line
    assert facts.state == "live" and ("/s" in line) != says, "a rate of an hour ago, and what it promises"
