"""Runs of many processes: what is looked at in turn is seen all the same, and too few open files are said."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from ntstop.session import Session
from ntstop.sources import live
from ntstop.sources.live import RunSource
from ntstop.sources.openfiles import room_for
from ntstop.sources.watch import RunWatch
from tests.helpers import wait_until

from .writer import Writer

RANKS = 40


def ranks(*, live: bool = False, pid: int | None = None) -> list[Writer]:
    return [Writer(rank=rank, live=live, pid=pid) for rank in range(RANKS)]


def test_every_process_of_many_is_seen_at_the_first_look(home: Path) -> None:
    writers = ranks()
    for writer in writers:
        writer.train(0, 20)
    entry = RunWatch(writers[0].folder.parent).look()
    assert entry.ranks == RANKS and entry.state == "live"
    assert {process.first_step for process in entry.processes} == {0}
    assert {process.last_step for process in entry.processes} == {19}


def test_process_of_many_that_is_gone_is_seen_at_the_next_look(home: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    writers = [*ranks(), Writer(rank=RANKS, pid=child.pid)]
    for writer in writers:
        writer.train(0, 20)
    watch = RunWatch(writers[0].folder.parent)
    assert watch.look().state == "live"
    child.kill()
    child.wait()
    assert [process.rank for process in watch.look().processes if process.state == "died"] == [RANKS]


def test_exit_of_one_of_many_is_seen_when_its_turn_comes(home: Path) -> None:
    writers = ranks()
    watch = RunWatch(writers[0].folder.parent)
    watch.look()
    writers[7].train(0, 10)
    writers[7].exit(0)
    wait_until(lambda: [p.rank for p in watch.look().processes if p.state == "finished"] == [7])


def test_many_live_processes_come_to_the_same_curves(home: Path) -> None:
    writers = ranks(live=True)
    with Session(writers[0].folder.parent) as session:
        assert session.wait_for_end(30.0)
        for first in range(0, 100, 10):
            for writer in writers:
                writer.pump()
                writer.train(first, 10)

        def all_there() -> bool:
            with session.lock:
                states = session.state.ranks.values()
                return len(states) == RANKS and all(process.steps == 100 for process in states)

        wait_until(all_there, 30.0)
        assert session.status.gaps == 0
    for writer in writers:
        writer.close()


def test_too_few_open_files_are_said_and_the_recordings_are_read(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "room_for", lambda wanted: min(wanted, 30))
    writers = ranks(live=True)
    source = RunSource(writers[0].folder.parent)
    for writer in writers:
        writer.pump()
        writer.train(0, 10)
    seen: set[int] = set()

    def all_seen() -> bool:
        seen.update(arrival.writer for arrival in source.poll(0.1))
        return len(seen) == RANKS

    wait_until(all_seen, 20.0)
    assert "10 of 40 processes are read from their recordings only" in source.status.problem
    source.close()
    for writer in writers:
        writer.close()


def test_soft_limit_of_open_files_is_raised_up_to_the_hard_one() -> None:
    code = (
        "import resource; from ntstop.sources.openfiles import room_for\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (128, 400))\n"
        "print(room_for(100), resource.getrlimit(resource.RLIMIT_NOFILE)[0], room_for(2000))"
    )
    wanted, soft, most = map(int, subprocess.check_output([sys.executable, "-c", code], text=True).split())
    assert wanted == 100 and 128 < soft < 400
    assert 300 <= most < 400
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert room_for(1) == 1 and resource.getrlimit(resource.RLIMIT_NOFILE) == before
