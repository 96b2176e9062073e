"""The recording keeps to its limit: the oldest layers go, whole; the core never does; readers know what was removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ntstop_probe import registry
from ntstop_probe.disk import DEFAULT, limit_of
from ntstop_probe.recording import Recording
from ntstop_probe.transmitter import Transmitter
from ntstop_probe.wire import STREAM_CORE, STREAM_LAYERS, Event, FrameReader, Hello, Layers, Record, decode_batch, pack

LIMIT = 1_000_000


def transmitter(folder: Path, limit: int = LIMIT) -> Transmitter:
    sender = Transmitter(7, lambda: Hello(1, "run", "w", "h", "b", "p", 1, 0.0, 0, 0.0, 0.0))
    sender.recording = Recording(folder, max_bytes=limit)
    return sender


def layers(step: int) -> Layers:
    column = pack("f4", [float(step)] * 500)
    assert column is not None
    return Layers(1, step, None, float(step), {"grad_norm": column})


def used(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.nts"))


def read(folder: Path, stream: str) -> list[Record]:
    records: list[Record] = []
    for path in sorted(folder.glob(f"{stream}-*.nts")):
        reader = FrameReader()
        for frame in reader.feed(path.read_bytes()):
            records += decode_batch(frame.payload)[0]
        assert reader.corrupt == reader.pending == 0
    return records


def test_the_oldest_layers_go_first_and_whole_and_the_core_is_kept(tmp_path: Path) -> None:
    sender = transmitter(tmp_path)
    for step in range(2000):
        sender.send(STREAM_LAYERS, [layers(step)])
        sender.send(STREAM_CORE, [Event(float(step), "mark", ordinal=step)])
        assert used(tmp_path) <= LIMIT + 10_000
    marks = [record.ordinal for record in read(tmp_path, "core") if isinstance(record, Event)]
    assert marks == list(range(2000))
    kept = [record.ordinal for record in read(tmp_path, "layers") if isinstance(record, Layers)]
    assert kept == list(range(kept[0], 2000))
    assert 100 < len(kept) < 1000
    gone = registry.read_tombstone(tmp_path)
    names = sorted(path.name for path in tmp_path.glob("layers-*.nts"))
    assert names[0] == registry.segment_name("layers", gone.segments)
    # One more frame of each segment is its introduction.
    assert gone.frames - gone.segments == kept[0]
    assert sender.unrecorded == 0


def test_a_core_that_fills_the_limit_alone_stops_the_layers_and_goes_on(tmp_path: Path) -> None:
    sender = transmitter(tmp_path)
    for step in range(2000):
        sender.send(STREAM_LAYERS, [layers(step)])
        sender.send(STREAM_CORE, [Event(float(step), "mark", "x" * 1000, ordinal=step)])
    assert sender.recording is not None
    assert sender.recording.layers_stopped
    marks = [record.ordinal for record in read(tmp_path, "core") if isinstance(record, Event)]
    assert marks == list(range(2000))
    assert sender.unrecorded == 0
    assert sum(path.stat().st_size for path in tmp_path.glob("layers-*.nts")) < LIMIT / 4


@pytest.mark.parametrize(
    ("text", "size"),
    [(None, DEFAULT), ("", DEFAULT), ("5GB", 5_000_000_000), ("500 MiB", 500 * 2**20), ("1000", 1000), ("0", 0)],
)
def test_sizes(text: str | None, size: int) -> None:
    assert limit_of(text) == size


@pytest.mark.parametrize("text", ["much", "-1", "5GBB", "nan"])
def test_what_is_no_size_is_said_in_one_line_and_is_the_default(text: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert limit_of(text) == DEFAULT
    said = capfd.readouterr().err
    assert said.count("\n") <= 1
