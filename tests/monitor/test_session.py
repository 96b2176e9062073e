"""A session reads on whatever comes, lets the screen look, and says when it cannot."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ntstop.commands import screen
from ntstop.session import Session
from ntstop.sources.base import Arrival, SourceError, SourceStatus
from ntstop.sources.recording import RecordingSource
from ntstop_probe.wire import STREAM_CORE, Event, Record, Steps, encode_frame

from ..helpers import wait_until
from .writer import EPOCH, Writer, core, steps


class Recorder:
    """An engine that remembers what it was told."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.gone: list[tuple[int, str]] = []
        self.stopped: list[tuple[int, str]] = []

    @property
    def findings(self) -> list[object]:
        return []

    def observe(self, writer: int, record: Record) -> None:
        self.records.append(record)

    def process_gone(self, writer: int, evidence: str) -> None:
        self.gone.append((writer, evidence))

    def settle(self, stop: Callable[[], bool] = lambda: False, *, patient: bool = False) -> bool:
        return True

    def process_stopped(self, writer: int, evidence: str) -> None:
        self.stopped.append((writer, evidence))

    @property
    def steps(self) -> int:
        return sum(record.count for record in self.records if isinstance(record, Steps))


def loss_count(session: Session) -> int:
    with session.lock:
        primary = session.state.primary
        series = primary.series.get("loss") if primary else None
        return series.count if series else 0


def test_a_live_run_is_followed_until_it_ends() -> None:
    writer = Writer("run-1", live=True)
    writer.train(0, 100)
    with Session("run-1") as session:
        wait_until(lambda: loss_count(session) == 100)
        for first in range(100, 200, 10):
            writer.train(first, 10)
            writer.pump()
        wait_until(lambda: loss_count(session) == 200)
        writer.exit(0)
        writer.close()
        assert session.wait_for_end()
        assert session.entry is not None and session.entry.state == "finished"
        assert session.error is None
    assert not any(thread.name == "ntstop-reader" for thread in threading.enumerate())


def test_what_was_recorded_before_the_question_has_been_read_at_its_answer() -> None:
    writer = Writer("run-1", live=True)
    with Session("run-1") as session:
        for first in range(0, 500, 100):
            writer.train(first, 100)
            if first == 200:
                writer.close()
                writer.transmitter.live = None
            else:
                writer.pump()
            assert session.wait_for_end()
            assert loss_count(session) == first + 100


def test_load_reads_everything_in_one_call_and_opens_no_socket() -> None:
    writer = Writer("run-1", live=True)
    writer.train(0, 5_000)
    engine = Recorder()
    session = Session("run-1", engine)
    session.load()
    assert loss_count(session) == engine.steps == 5_000
    assert session.status.complete
    assert session.entry is not None and session.entry.state == "live"
    assert writer.transmitter.live is not None
    writer.pump()
    assert writer.transmitter.live.viewers == 0
    writer.close()


def test_live_and_loaded_tell_the_engine_the_same() -> None:
    writer = Writer("run-1", live=True)
    engine, replay = Recorder(), Recorder()
    with Session("run-1", engine) as session:
        for first in range(0, 300, 10):
            writer.train(first, 10)
            writer.beat(first + 10)
            writer.pump()
        assert session.wait_for_end()
    Session("run-1", replay).load()
    assert engine.records == replay.records
    writer.close()


def test_the_engine_is_told_once_of_a_process_that_died() -> None:
    job = subprocess.Popen(["sleep", "60"])
    writer = Writer("run-1", pid=job.pid)
    writer.train(0, 10)
    engine = Recorder()
    with Session("run-1", engine) as session:
        wait_until(lambda: engine.steps == 10)
        assert session.wait_for_end() and engine.gone == []
        job.kill()
        job.wait()
        wait_until(lambda: engine.gone)
        assert session.wait_for_end()
    assert [gone[0] for gone in engine.gone] == [writer.writer]
    assert f"pid {job.pid} is gone" in engine.gone[0][1]
    replay = Recorder()
    Session("run-1", replay).load()
    assert [gone[0] for gone in replay.gone] == [writer.writer]


def test_a_process_that_raised_and_left_no_exit_record_is_gone_too() -> None:
    job = subprocess.Popen(["true"])
    writer = Writer("run-1", pid=job.pid)
    job.wait()
    writer.train(0, 10)
    writer.send(Event(EPOCH, "exception", "ValueError: x"))
    session = Session("run-1")
    session.load()
    assert session.entry is not None and session.entry.state == "failed"
    assert [finding.kind for finding in session.findings if finding.severity == "critical"] == ["died"]


def test_a_session_outlives_rubbish_in_the_recording() -> None:
    writer = Writer("run-1")
    with Session("run-1") as session:
        writer.train(0, 10)
        with core(writer).open("ab") as file:
            file.write(os.urandom(5_000))
            file.write(encode_frame(STREAM_CORE, writer.writer, 3, os.urandom(500)))
            file.write(encode_frame(STREAM_CORE, writer.writer, 4, b"\x91\x93\xa5steps\x01\x02"))
        writer.transmitter.sequence = 4
        writer.train(10, 10)
        wait_until(lambda: loss_count(session) == 20)
        wait_until(lambda: session.status.skipped >= 2)  # It is told of once what came with it is applied.
        assert session.status.corrupt > 0 and session.status.skipped == 2
        assert session.error is None


def test_a_run_that_does_not_exist_yet_is_waited_for(home: Path) -> None:
    with Session(home / "runs" / "run-1") as session:
        assert loss_count(session) == 0
        Writer("run-1").train(0, 10)
        wait_until(lambda: loss_count(session) == 10)


def test_an_unknown_run_is_refused_at_once() -> None:
    with pytest.raises(SourceError, match="there is no run 'nothing'"):
        Session("nothing")


class Failing:
    """A source that breaks."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.status = SourceStatus()
        self.closed = False

    def poll(self, timeout: float) -> list[Arrival]:
        raise self.error

    def refresh(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("error", "text"),
    [(SourceError("no permission"), "no permission"), (ValueError("boom"), "the reader has failed: ValueError: boom")],
)
def test_a_reader_that_cannot_go_on_says_so(error: Exception, text: str) -> None:
    source = Failing(error)
    with Session(source) as session:
        wait_until(lambda: session.error)
        assert session.error == text
        assert not session.wait_for_end()
    assert source.closed


def test_the_lock_is_free_most_of_the_time_while_a_long_recording_is_read() -> None:
    writer = Writer("run-1")
    writer.train(0, 60_000, block=256)
    with Session("run-1") as session:
        waits = []
        while not session.status.complete:
            begin = time.perf_counter()
            with session.lock:
                waits.append(time.perf_counter() - begin)
            time.sleep(0.001)
        wait_until(lambda: loss_count(session) == 60_000)
    assert np.median(waits) < 0.1


def test_a_recording_of_one_process_is_a_source_too() -> None:
    writer = Writer("run-1")
    writer.train(0, 10)
    session = Session(RecordingSource(writer.folder))
    session.load()
    assert loss_count(session) == 10
    assert session.entry is None


def test_before_a_screen_is_built_the_reading_begins_and_then_rests(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screen, "FIRST_LOOK", 30.0)
    monkeypatch.setattr(screen, "WHILE_BUILT", 3.0)
    writer = Writer()
    writer.send(steps(0, [2.0] * 10))
    writer.close()
    with Session(writer.folder.parent) as session:
        screen._let_it_begin(session)
        assert session.status.complete and session.lock.wanted
        assert session.wait_for_end(30), "the rest ends by itself"
