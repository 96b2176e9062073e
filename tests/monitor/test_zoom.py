"""Old steps at full resolution: what memory has only in buckets is read from the recording, in the background."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ntstop.run.detail import DetailReader
from ntstop.session import Session
from ntstop.sources.stretch import read_stretch
from ntstop_probe.wire import Layers, Schema, Steps
from tests.helpers import wait_until

from .writer import Writer, column, steps

STEPS, BLOCK, EVERY = 120_000, 1_000, 20
NAMES = ["a", "b", "c"]


def record(writer: Writer, first: int, count: int) -> None:
    """Steps whose loss is their number, and a sample of three layers in every twentieth."""
    for start in range(first, first + count, BLOCK):
        for ordinal in range(start, start + BLOCK, EVERY):
            values = column("f4", [ordinal, -ordinal, 1.0])
            writer.send_layers(Layers(1, ordinal, None, float(ordinal), {"grad_norm": values}, EVERY))
        writer.send(steps(start, [float(step) for step in range(start, start + BLOCK)]))


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    patch = pytest.MonkeyPatch()
    patch.setenv("NTSTOP_HOME", str(tmp_path_factory.mktemp("home")))
    writer = Writer(segment_bytes=512 * 1024)
    writer.send_layers(Schema(1, NAMES, [1] * 3))
    record(writer, 0, STEPS)
    writer.exit()
    writer.close()
    yield writer.folder.parent
    patch.undo()


@pytest.fixture
def session(long_run: Path) -> Iterator[Session]:
    session = Session(long_run)
    session.load()
    yield session
    session.stop()


def loss(session: Session, x0: float, x1: float, columns: int) -> tuple[list[float], list[float]]:
    with session.lock:
        process = session.state.primary
        assert process is not None
        found = session.zoom.window(session.state, process, "loss", x0, x1, columns)
        return found.x.tolist(), found.mean.tolist()


def test_a_deep_zoom_shows_every_step_once_the_recording_was_read(session: Session) -> None:
    coarse, _ = loss(session, 20_000, 20_200, 300)
    assert len(coarse) < 30, "memory has no more than this"
    wait_until(lambda: len(loss(session, 20_000, 20_200, 300)[0]) == 201, 20, 0.02, "the stretch was read")
    x, y = loss(session, 20_000, 20_200, 300)
    assert x == y == [float(step) for step in range(20_000, 20_201)]


def test_layers_in_a_deep_zoom_are_single_samples(session: Session) -> None:
    def columns() -> int:
        with session.lock:
            process = session.state.primary
            assert process is not None
            return len(session.zoom.layers(session.state, process, "grad_norm", 50_000, 52_000, 150))

    assert columns() < 60
    wait_until(lambda: columns() == 101, 20, 0.02, "the stretch was read")
    with session.lock:
        process = session.state.primary
        assert process is not None
        found = session.zoom.layers(session.state, process, "grad_norm", 50_000, 52_000, 150)
        values, nonfinite = session.zoom.layers_at(process, "grad_norm", 50_110)
    assert found.x.tolist() == list(range(50_000, 52_001, EVERY))
    np.testing.assert_array_equal(found.mean[0], found.x)
    assert values.tolist() == [50_100, -50_100, 1] and not nonfinite.any()


def test_the_value_under_the_cursor_is_exact_where_the_stretch_is_at_hand(session: Session) -> None:
    loss(session, 30_000, 30_100, 300)
    wait_until(lambda: len(loss(session, 30_000, 30_100, 300)[0]) == 101, 20, 0.02, "the stretch was read")
    with session.lock:
        process = session.state.primary
        assert process is not None
        assert session.zoom.point_at(process, "loss", 30_051) == (30_051, 30_051)


def test_a_wide_view_reads_nothing_from_disk(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DetailReader, "get", lambda *_: pytest.fail("asked for"))
    assert len(loss(session, 0, STEPS, 200)[0]) >= 100
    assert len(loss(session, STEPS - 300, STEPS, 200)[0]) == 300, "the newest steps are in memory"


def test_the_same_wish_is_answered_from_memory_until_a_record_comes(session: Session) -> None:
    def asked() -> object:
        with session.lock:
            process = session.state.primary
            assert process is not None
            return session.zoom.window(session.state, process, "loss", 0, STEPS, 200)

    first = asked()
    assert asked() is first
    with session.lock:
        session.state.version += 1
    assert asked() is not first


def test_only_the_segments_of_the_stretch_are_read(long_run: Path) -> None:
    folder = next(long_run.iterdir())
    of_all = sum(isinstance(one, Steps) for part in read_stretch(folder, 0, STEPS) for one in part)
    parts = list(read_stretch(folder, 60_000, 60_500))
    blocks = [record for part in parts for record in part if isinstance(record, Steps)]
    assert of_all == STEPS // BLOCK
    assert [block.ordinal for block in blocks] == [60_000]
    assert len(parts) <= 8, "a megabyte at a time, of a few segments"


def test_the_next_look_comes_at_once_and_the_newest_wish_wins(long_run: Path) -> None:
    arrived = threading.Event()
    reader = DetailReader(arrived.set)
    folders = [next(long_run.iterdir())]
    for first in range(0, 100_000, 5_000):
        assert reader.get(folders, first, first + 100, STEPS) is None
    wait_until(lambda: reader.get(folders, 95_000, 95_100, STEPS) is not None, 20, 0.02, "the last one was read")
    reader.close()
    assert arrived.is_set()


def test_a_stretch_that_is_on_its_way_is_said_to_be(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    going_on = threading.Event()
    load = DetailReader._load

    def held(*wanted: Any) -> Any:
        going_on.wait(20)
        return load(*wanted)

    monkeypatch.setattr(DetailReader, "_load", held)
    assert not session.zoom.is_reading
    loss(session, 60_000, 60_200, 300)
    assert session.zoom.is_reading
    going_on.set()
    wait_until(lambda: not session.zoom.is_reading, 20, 0.02, "it was read")


def test_the_tail_of_a_live_run_is_not_read_again_for_every_step(long_run: Path) -> None:
    reader = DetailReader(lambda: None)
    folders = [next(long_run.iterdir())]
    wait_until(lambda: reader.get(folders, 80_000, 90_000, 90_000) is not None, 20, 0.02, "read")
    assert reader.get(folders, 80_500, 91_500, 91_500) is not None
    assert reader.get(folders, 85_000, 99_000, 99_000) is None, "a fifth of the range has come since"
    reader.close()


def test_where_the_layers_were_pruned_memory_keeps_what_it_has(session: Session, long_run: Path) -> None:
    kept = [(path, path.read_bytes()) for path in long_run.glob("*/layers-*.nts")]
    try:
        for path, _ in kept:
            path.unlink()
        loss(session, 40_000, 41_000, 3_000)
        wait_until(lambda: len(loss(session, 40_000, 41_000, 3_000)[0]) == 1_001, 20, 0.02, "the stretch was read")
        with session.lock:
            process = session.state.primary
            assert process is not None
            found = session.zoom.layers(session.state, process, "grad_norm", 40_000, 41_000, 150)
        assert len(found) and (found.x_last > found.x_first).all()
    finally:
        for path, data in kept:
            path.write_bytes(data)
