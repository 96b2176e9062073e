"""A step back in a replay: it begins at what was kept on the way, and shows what was seen there the first time."""

from __future__ import annotations

import contextlib
import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from ntstop.diagnosis.engine import Engine
from ntstop.run import past
from ntstop.run.state import RunState
from ntstop.session import Session
from ntstop.sources import replay as replay_module
from ntstop.sources import segments
from ntstop.sources.live import RunSource
from ntstop.sources.replay import ReplaySource
from ntstop.sources.runs import read_run
from ntstop.sources.segments import ProcessRecording
from ntstop_probe import wire
from ntstop_probe.wire import Event, Layers, Schema
from tests.helpers import wait_until

from .writer import EPOCH, Writer, column, steps

STEPS = 1000
"""A step every 0.1 s: 100 s."""


@pytest.fixture
def copies_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of state and diagnosis after every burst, and bursts that are small."""
    monkeypatch.setattr(past, "_ENGINE_SECONDS", 0.0)
    monkeypatch.setattr(past, "_STATE_SECONDS", 0.0)
    monkeypatch.setattr(past, "_COST_SHARE", math.inf)
    monkeypatch.setattr(replay_module, "_BURST", 10)
    monkeypatch.setattr(segments, "CHUNK", 4096)
    monkeypatch.setattr(segments, "_BURST_BYTES", 2048)


def record(*ranks: int | None) -> Path:
    """Runs into NaN at 600 on all ranks, with layers every 20 steps in small segments."""
    for rank in ranks:
        writer = Writer(rank=rank, segment_bytes=16 * 1024)
        writer.send_layers(Schema(1, ["a", "b"]))
        for first in range(0, STEPS, 10):
            if first % 20 == 0:
                norms = column("f4", [1.0 + first, 2.0])
                writer.send_layers(Layers(1, first, None, EPOCH + 0.1 * first, {"grad_norm": norms}))
            losses = [math.nan if place >= 600 else 2.0 - place / STEPS for place in range(first, first + 10)]
            writer.send(steps(first, losses))
            writer.beat(first + 10)
        writer.send(Event(EPOCH + 0.1 * STEPS, "exit", data={"code": 0}))
        writer.close()
    return writer.folder.parent


def shown(state: RunState, engine: Any) -> list[object]:
    """All that a screen could draw of the curves, layers and findings."""
    seen: list[object] = []
    for process in sorted(state.processes.values(), key=lambda process: process.rank or 0):
        seen += [process.steps, process.x, process.heartbeat, process.exit, process.events_seen]
        for name, series in sorted(process.series.items()):
            seen += [name, series.count, [part.tobytes() for part in series.recent(STEPS)]]
            seen.append(series.window(0, STEPS, 60).mean.tobytes())
        for name, matrix in process.layers.items():
            seen += [name, matrix.samples, matrix.window(0, STEPS, 60).mean.tobytes()]
    for finding in engine.findings:
        told = asdict(finding)
        del told["writer"]
        seen.append(repr(told))
    return seen


def first_time(folder: Path, position: float) -> list[object]:
    """What is shown of a moment to which nobody has come back."""
    replay, state, engine = ReplaySource(read_run(folder)), RunState(), Engine()
    replay.seek((position - replay.end) / (replay.end - replay.start))
    while not replay.settled:
        for writer, _, record in replay.poll(0.0):
            state.apply(writer, record)
            engine.observe(writer, record)
    engine.settle()
    return shown(state, engine)


class Counting(Engine):
    """Counts what all of its kind observe."""

    observed = 0

    def observe(self, writer: int, record: wire.Record) -> None:
        Counting.observed += 1
        super().observe(writer, record)


@pytest.mark.parametrize("flip", [None, 3_000, 40_000])
def test_a_reader_goes_on_from_every_bookmark_as_if_it_had_never_stopped(
    copies_everywhere: None, flip: int | None
) -> None:
    process = next(path for path in record(None).iterdir() if path.is_dir())
    if flip is not None:
        damaged = sorted(process.glob("core-*.nts"))[flip // 16_384]
        data = bytearray(damaged.read_bytes())
        data[flip % 16_384] ^= 4
        damaged.write_bytes(data)
    whole = ProcessRecording(process)
    bookmarks, bursts = [whole.bookmark], []
    while burst := whole.read():
        bursts.append(burst)
        bookmarks.append(whole.bookmark)
    assert len(bursts) > 10
    for place, bookmark in enumerate(bookmarks):
        other = ProcessRecording(process, bookmark)
        rest = list(itertools.chain.from_iterable(iter(other.read, [])))
        assert rest == list(itertools.chain.from_iterable(bursts[place:]))
        assert other.counts == whole.counts
        assert other.gaps == whole.gaps


@contextlib.contextmanager
def replayed(session: Session) -> Iterator[tuple[Session, ReplaySource]]:
    """A session that has read its run to the end, and plays it."""
    with session:
        assert session.wait_for_end()
        wait_until(session.begin_replay, what="a run that has ended")
        assert session.replay is not None
        yield session, session.replay


@pytest.mark.parametrize("ranks", [(None,), (0, 1, 2)])
def test_whichever_way_one_comes_to_a_moment_it_shows_the_same(copies_everywhere: None, ranks: tuple[int, ...]) -> None:
    folder = record(*ranks)
    chance = random.Random(1)
    with replayed(Session(folder)) as (session, replay):
        for share in (-0.3, -0.3, 0.5, *(chance.uniform(-0.7, 0.6) for _ in range(5))):
            replay.seek(share)
            expected = first_time(folder, replay.position)

            def arrived(expected: list[object] = expected) -> bool:
                with session.lock:
                    return shown(session.state, session.engine) == expected

            wait_until(arrived, what=f"{replay.position - replay.start} s")


def test_a_step_back_diagnoses_only_what_lies_behind_the_last_copy(copies_everywhere: None) -> None:
    replay, kept = ReplaySource(read_run(record(None))), past.Past[Counting]()
    replay.anchor = kept.anchor

    def go(share: float) -> past.Rebuilt[Counting]:
        replay.seek(share)
        replay.settled = False
        while not replay.settled:
            arrivals = replay.poll(0.0)
            if replay.rewound():
                rebuilt = kept.begin(replay.promised, Counting)
            rebuilt.take(arrivals, replay.count - len(arrivals))
            kept.passed(replay.mark, rebuilt.state, rebuilt.engine if replay.count >= rebuilt.seen else None, 1.0)
        return rebuilt

    go(-0.05)
    whole, Counting.observed = Counting.observed, 0
    for number in range(4):
        process = go(-1 / 20).state.primary
        assert process is not None
        assert process.steps == pytest.approx(900 - 50 * number, abs=20)
    # A burst, and what begins anew, each time.
    assert Counting.observed < whole / 3


def test_the_diagnosis_of_the_first_reading_serves_the_first_step_back(copies_everywhere: None) -> None:
    folder = record(None)
    kept, engine, source = past.Past[Counting](), Counting(), RunSource(folder, live=False)
    arrivals = list(itertools.chain.from_iterable(iter(lambda: source.poll(0.0), [])))
    for burst in (arrivals[at : at + 10] for at in range(0, len(arrivals), 10)):
        for writer, _, told in burst:
            engine.observe(writer, told)
        kept.heard(burst, engine, 1.0)
    replay = ReplaySource(read_run(folder))
    moment = replay.start + 0.7 * (replay.end - replay.start)
    begun = kept.begin(moment, Counting)
    assert kept.anchor(moment) is None
    assert 0.6 * len(arrivals) < begun.seen < 0.8 * len(arrivals)
    Counting.observed = 0
    replay.seek((moment - replay.end) / (replay.end - replay.start))
    while not replay.settled:
        burst = replay.poll(0.0)
        begun.take(burst, replay.count - len(burst))
    assert Counting.observed < 0.1 * len(arrivals)
    assert shown(begun.state, begun.engine) == first_time(folder, moment)


def test_what_is_kept_keeps_to_its_bytes_and_its_moments_lie_apart(
    copies_everywhere: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past, "_STATE_BYTES", 1_000_000)
    monkeypatch.setattr(past, "_ENGINE_BYTES", 100_000)
    replay, state, engine = ReplaySource(read_run(record(None))), RunState(), Engine()
    kept: past.Past[Engine] = past.Past()
    while not replay.status.complete:
        for writer, _, told in replay.poll(0.0):
            state.apply(writer, told)
            engine.observe(writer, told)
        kept.passed(replay.mark, state, engine, 0.01)
    for shelf, most in ((kept._states, 1_000_000), (kept._engines, 100_000)):
        assert shelf.kept
        assert sum(len(each.data) for each in shelf.kept) <= most
        counts = [each.mark.count for each in shelf.kept]
        assert counts == sorted(set(counts))


def test_an_engine_that_cannot_be_copied_is_fed_from_the_first_record_on(copies_everywhere: None) -> None:
    class Odd(Engine):
        """Holds what no copy can be made of."""

        def __init__(self) -> None:
            super().__init__()
            self.thing = lambda: None

    folder = record(None)
    with replayed(Session(folder, renew=Odd)) as (session, replay):
        replay.seek(-0.5)
        expected = first_time(folder, replay.position)
        wait_until(lambda: shown(session.state, session.engine) == expected)
