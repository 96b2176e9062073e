"""What a viewer of many ranks does, counted: no recording is read twice, no frame costs a look at all ranks."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ntstop.session import Session
from ntstop.sources import feed as feeds
from ntstop.sources import live, segments
from ntstop.sources.feed import MANY, Feed
from ntstop.sources.live import RunSource
from ntstop.sources.segments import ProcessRecording
from ntstop.sources.watch import RunWatch
from ntstop_probe.wire import Heartbeat, Steps
from tests.helpers import wait_until

from .writer import EPOCH, Writer

RANKS = MANY + 4


@pytest.fixture
def writers(home: Path) -> Iterator[list[Writer]]:
    made = [Writer(rank=rank, live=True) for rank in range(RANKS)]
    yield made
    for writer in made:
        writer.close()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Feed]:
    """Those whose recording was looked at again after it had been read."""
    looked: list[Feed] = []
    look = Feed._look

    def counting(feed: Feed, now: float) -> object:
        looked.append(feed)
        return look(feed, now)

    monkeypatch.setattr(Feed, "_look", counting)
    return looked


def attach(writers: list[Writer]) -> RunSource:
    """A source that has read all recordings and is subscribed to all sockets."""
    source = RunSource(writers[0].folder.parent)

    def attached() -> bool:
        for writer in writers:
            writer.pump()
        source.poll(0.01)
        return source.status.complete and all(w.transmitter.live and w.transmitter.live.viewers for w in writers)

    wait_until(attached, 30.0)
    return source


def test_a_run_that_is_kept_up_with_is_read_from_the_sockets_alone(writers: list[Writer], looks: list[Feed]) -> None:
    for writer in writers:
        writer.train(0, 10)
    source = attach(writers)
    looks.clear()
    seen = dict.fromkeys((writer.writer for writer in writers), 0)
    for first in range(10, 60, 10):
        for writer in writers:
            writer.train(first, 10)
        for arrival in source.poll(0.2):
            seen[arrival.writer] += arrival.record.count if isinstance(arrival.record, Steps) else 0

    def all_there() -> bool:
        for arrival in source.poll(0.05):
            seen[arrival.writer] += arrival.record.count if isinstance(arrival.record, Steps) else 0
        return set(seen.values()) == {50}

    wait_until(all_there, 30.0)
    missed = [feed for feed in looks if feed.live(float("inf"))]
    assert not missed and source.status.gaps == 0
    source.close()


def test_frames_of_all_ranks_are_taken_in_by_one_look(writers: list[Writer], monkeypatch: pytest.MonkeyPatch) -> None:
    source = attach(writers)
    for writer in writers:
        writer.train(0, 30, block=10)
    sizes: list[int] = []

    def all_there() -> bool:
        sizes.append(sum(isinstance(arrival.record, Steps) for arrival in source.poll(0.05)))
        return sum(sizes) == 3 * RANKS

    wait_until(all_there, 30.0)
    assert len([size for size in sizes if size]) <= RANKS
    source.close()


def test_what_is_asked_for_once_is_looked_at_once(writers: list[Writer], looks: list[Feed]) -> None:
    ended = threading.Event()

    def go_on() -> None:
        step = 0
        while not ended.wait(0.002):
            for writer in writers:
                writer.pump()
            writers[step % RANKS].train(step // RANKS, 1)
            step += 1

    publisher = threading.Thread(target=go_on)
    with Session(writers[0].folder.parent) as session:
        assert session.wait_for_end(30.0)
        publisher.start()
        try:
            wait_until(lambda: session.state.version > 10, 30.0)
            looks.clear()
            # It goes on being written: what was there when the question was put is what is waited for.
            assert session.wait_for_end(30.0)
            assert set(looks) <= set(session._source._feeds.values())  # type: ignore[attr-defined]
            assert len(looks) >= RANKS and all(looks.count(feed) <= 4 for feed in looks)
        finally:
            ended.set()
            publisher.join()


def beats(writer: Writer, seconds: int) -> None:
    for second in range(seconds):
        writer.train(10 * second, 10)
        writer.send(Heartbeat(EPOCH + second, 1e9 + second, "forward", 0.1, 10 * second + 10))


def test_rank_0_is_read_to_its_end_and_then_the_others_side_by_side(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "_CHUNK_OF_MANY", 2048)
    monkeypatch.setattr(live, "_SLICE", 0.0)
    ranks = [Writer(rank=rank) for rank in reversed(range(RANKS))]
    for rank in ranks:
        beats(rank, 100)
        rank.close()
    source = RunSource(ranks[0].folder.parent, live=False)
    reached = dict.fromkeys((rank.writer for rank in ranks), 0.0)
    first, widest = ranks[-1].writer, 0.0
    while not source.status.complete or set(reached.values()) != {99.0}:
        for arrival in source.poll(0.0):
            if isinstance(arrival.record, Heartbeat):
                reached[arrival.writer] = arrival.record.wall - 1e9
        others = [at for writer, at in reached.items() if writer != first]
        if reached[first] < 99.0:
            assert not any(others)
        elif all(others):
            widest = max(widest, max(others) - min(others))
    assert 0.0 < widest < 60.0
    source.close()


def test_a_rank_that_is_read_goes_on_live_while_others_are_still_read(
    writers: list[Writer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "_CHUNK_OF_MANY", 2048)
    monkeypatch.setattr(live, "_SLICE", 0.0)
    for writer in writers:
        beats(writer, 60)
    source, socket = RunSource(writers[0].folder.parent), writers[0].transmitter.live
    assert socket is not None

    def newest() -> int:
        writers[0].pump()
        found = (a.record for a in source.poll(0.0) if a.writer == writers[0].writer)
        return max((record.ordinal for record in found if isinstance(record, Steps)), default=-1)

    wait_until(lambda: newest() == 590, 30.0, interval=0.0)
    while not socket.viewers:
        # The source tries to connect, and reads no recording meanwhile.
        source._listen(0.01)
        writers[0].pump()
    writers[0].train(600, 10)
    wait_until(lambda: newest() == 600, 30.0, interval=0.0)
    assert not source.status.complete
    source.close()


def test_the_evidence_on_many_is_looked_for_in_parts(home: Path) -> None:
    ranks = [Writer(rank=rank) for rank in range(RANKS)]
    watch, parts = RunWatch(ranks[0].folder.parent), 1
    while (entry := watch.look_for(0.0)) is None:
        parts += 1
    assert parts > RANKS and entry.ranks == RANKS
    for rank in ranks:
        rank.close()


def test_a_folder_that_has_not_changed_is_not_listed_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "_SETTLES", -1.0)
    writer = Writer(segment_bytes=4_000)
    writer.train(0, 10)
    recording, listed = ProcessRecording(writer.folder), list[object]()
    listing = os.listdir

    def counting(path: Path) -> list[str]:
        listed.append(path)
        return listing(path)

    monkeypatch.setattr(os, "listdir", counting)
    assert len(recording.read()) == 2 and recording.at_end
    recording.read()
    listed.clear()
    for _ in range(5):
        assert recording.read() == []
    assert not listed
    writer.train(10, 300)
    assert sum(len(frame.payload) > 1 for frame in recording.read()) >= 30
    writer.close()
