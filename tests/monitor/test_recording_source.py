"""A recording is read whatever state it is in, and what could not be read is counted."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ntstop.run.state import RunState
from ntstop.sources.base import Arrival, SourceError, SourceStatus
from ntstop.sources.live import RunSource
from ntstop.sources.recording import RecordingSource
from ntstop_probe import registry
from ntstop_probe.recording import Recording
from ntstop_probe.wire import (
    HEADER_SIZE,
    MAGIC,
    PROTOCOL,
    STREAM_CORE,
    FrameReader,
    Layers,
    Schema,
    Steps,
    encode_batch,
    encode_frame,
    frames,
)

from .permissions import as_nobody
from .writer import EPOCH, Writer, column, core, steps


def read(folder: Path) -> tuple[list[Arrival], SourceStatus]:
    source = RecordingSource(folder)
    arrivals: list[Arrival] = []
    while burst := source.poll(0):
        arrivals += burst
    return arrivals, source.status


def ordinals(arrivals: list[Arrival]) -> list[int]:
    return [arrival.record.ordinal for arrival in arrivals if isinstance(arrival.record, Steps)]


def test_both_streams_come_in_the_order_in_which_they_were_written() -> None:
    writer = Writer(segment_bytes=2_000)
    writer.send_layers(Schema(1, ["a"]))
    for step in range(60):
        writer.send_layers(Layers(1, step, None, 1.0, {"grad_norm": column("f4", [1.0])}))
        if step % 3:
            writer.train(step, 1)
    arrivals, status = read(writer.folder)
    sequences = [arrival.sequence for arrival in arrivals]
    assert sequences == sorted(sequences)
    assert set(sequences) == set(range(1, writer.transmitter.sequence + 1))
    assert len(list(writer.folder.glob("core-*"))) > 2 and len(list(writer.folder.glob("layers-*"))) > 1
    assert (status.gaps, status.corrupt, status.torn, status.complete) == (0, 0, 0, True)


def test_growth_is_followed_across_segments() -> None:
    writer = Writer(segment_bytes=1_000)
    source = RecordingSource(writer.folder)
    assert source.poll(0) == []
    seen: list[int] = []
    for step in range(40):
        writer.train(step, 1)
        seen += ordinals(source.poll(0))
    assert seen == list(range(40))


def test_a_torn_tail_is_the_end_until_it_is_completed() -> None:
    writer = Writer()
    writer.train(0, 30)
    data = core(writer).read_bytes()
    core(writer).write_bytes(data[:-50])
    source = RecordingSource(writer.folder)
    assert ordinals(source.poll(0)) == [0, 10]
    assert source.poll(0) == []
    assert source.status.torn > 0 and source.status.corrupt == 0
    core(writer).write_bytes(data)
    assert ordinals(source.poll(0)) == [20]
    assert source.status.torn == 0


def test_a_tail_torn_for_good_costs_one_frame() -> None:
    writer = Writer(segment_bytes=1_500)
    writer.train(0, 60)
    first = core(writer)
    first.write_bytes(first.read_bytes()[:-50])
    arrivals, status = read(writer.folder)
    assert len(ordinals(arrivals)) == 5
    assert (status.gaps, status.corrupt) == (1, 1)


@pytest.mark.parametrize("place", ["header", "payload"])
def test_a_flipped_bit_costs_its_frame_and_is_counted(place: str) -> None:
    writer = Writer()
    writer.train(0, 50)
    data = bytearray(core(writer).read_bytes())
    starts = [index for index in range(len(data)) if data.startswith(MAGIC, index)]
    at = starts[2] + (26 if place == "header" else HEADER_SIZE + 40)
    data[at] ^= 0x10
    core(writer).write_bytes(data)
    arrivals, status = read(writer.folder)
    assert len(ordinals(arrivals)) == 4
    assert status.corrupt == 1 and status.gaps == 1


def test_a_file_of_zero_length_is_no_obstacle() -> None:
    writer = Writer(segment_bytes=1_000)
    writer.train(0, 30)
    (writer.folder / "layers-000000.nts").touch()
    core(writer, 1).write_bytes(b"")
    arrivals, _ = read(writer.folder)
    assert ordinals(arrivals)
    empty = Writer("empty")
    core(empty).touch()
    assert read(empty.folder)[0] == []


def test_a_deleted_segment_leaves_a_gap_and_the_rest() -> None:
    writer = Writer(segment_bytes=1_500)
    writer.train(0, 100)
    core(writer, 1).unlink()
    arrivals, status = read(writer.folder)
    assert 0 in ordinals(arrivals) and 90 in ordinals(arrivals)
    assert status.gaps > 0 and status.complete


def test_a_segment_deleted_under_the_reader_is_passed_over() -> None:
    writer = Writer(segment_bytes=1_500)
    source = RecordingSource(writer.folder)
    writer.train(0, 10)
    assert ordinals(source.poll(0)) == [0]
    writer.train(10, 60)
    core(writer, 0).unlink()
    assert ordinals(source.poll(0))[-1] == 60


def test_pruned_layers_do_not_hold_up_the_core() -> None:
    writer = Writer(segment_bytes=1_500)
    writer.send_layers(Schema(1, ["a"]))
    for step in range(100):
        writer.send_layers(Layers(1, step, None, 1.0, {"grad_norm": column("f4", [1.0])}))
        writer.train(step, 1)
    for segment in sorted(writer.folder.glob("layers-*"))[:-1]:
        segment.unlink()
    arrivals, status = read(writer.folder)
    assert ordinals(arrivals) == list(range(100))
    assert status.gaps > 50
    source = RunSource(writer.folder)
    assert ordinals(source.poll(0)) == list(range(100))
    source.close()


def test_an_unknown_record_is_skipped_and_counted() -> None:
    writer = Writer()
    writer.train(0, 10)
    payload = msgspec.msgpack.encode([["from-the-future", 1, 2], steps(10, [1.0]), ["steps", "no count"]])
    with core(writer).open("ab") as file:
        file.write(encode_frame(STREAM_CORE, writer.writer, 3, payload))
    arrivals, status = read(writer.folder)
    assert ordinals(arrivals) == [0, 10]
    assert status.skipped == 2


@pytest.mark.parametrize(
    ("make", "where"),
    [
        (RecordingSource, "hello"),
        (RecordingSource, "frame"),
        (RunSource, "hello"),
        (RunSource, "frame"),
        (RunSource, "announcement"),
    ],
)
def test_a_newer_protocol_is_named_and_not_misread(make: Callable[[Path], RunSource], where: str) -> None:
    writer = Writer()
    if where == "announcement":
        writer.train(0, 10)
        writer.announce(protocol=PROTOCOL + 1)
    elif where == "hello":
        hello = msgspec.structs.replace(writer.hello(), protocol=PROTOCOL + 1)
        core(writer).write_bytes(
            encode_frame(STREAM_CORE, writer.writer, 1, encode_batch([hello]))
            + encode_frame(STREAM_CORE, writer.writer, 2, encode_batch([steps(0, [1.0])]))
        )
    else:
        version, frames.VERSION = frames.VERSION, 2
        try:
            core(writer).write_bytes(encode_frame(STREAM_CORE, writer.writer, 1, encode_batch([steps(0, [1.0])])))
        finally:
            frames.VERSION = version
    source = make(writer.folder)
    assert ordinals(source.poll(0)) == []
    assert source.status.newer == PROTOCOL + 1
    assert source.status.problem == (
        f"written by a newer ntstop (protocol {PROTOCOL + 1}, this one reads {PROTOCOL}): pip install -U ntstop"
    )
    source.close()


def test_random_bytes_never_raise() -> None:
    writer = Writer()
    writer.train(0, 10)
    with core(writer).open("ab") as file:
        file.write(MAGIC + os.urandom(200_000))
    writer.train(10, 10)
    arrivals, status = read(writer.folder)
    assert ordinals(arrivals)[0] == 0
    assert status.corrupt > 0


def test_a_folder_that_is_not_there_yet_is_waited_for(home: Path) -> None:
    source = RunSource(home / "runs" / "run-1")
    assert source.poll(0.01) == []
    assert not source.status.complete
    writer = Writer("run-1")
    writer.train(0, 10)
    arrivals: list[Arrival] = []
    for _ in range(100):
        arrivals += source.poll(0.1)
        if arrivals:
            break
    assert ordinals(arrivals) == [0]
    source.close()


@pytest.mark.parametrize("part", ["run", "process", "segment"])
def test_a_run_without_permission_is_one_clear_line(open_home: Path, part: str) -> None:
    writer = Writer("run-1")
    writer.train(0, 10)
    run = writer.folder.parent
    for path in (run, writer.folder):
        path.chmod(0o755)
    target = {"run": run, "process": writer.folder, "segment": core(writer)}[part]
    target.chmod(0o000)
    text = as_nobody(lambda: _poll_once(run))
    assert text == f"{SourceError.__name__}: {target}: permission denied (only its owner may read a run)"


def _poll_once(run: Path) -> None:
    RunSource(run, live=False).poll(0)


def test_records_whose_columns_do_not_fit_are_left_out() -> None:
    state = RunState()
    state.apply(1, steps(0, [1.0, 2.0]))
    good = steps(2, [3.0, 4.0])
    state.apply(1, msgspec.structs.replace(good, count=3))
    state.apply(1, msgspec.structs.replace(good, losses={"loss": column("f8", [1.0])}))
    process = state.processes[1]
    assert process.series["loss"].count == 2
    assert process.series["grad_norm"].count == 4
    assert process.misfits == 2


def test_layers_that_the_writer_has_removed_are_no_gap_and_it_is_said_from_where_they_are_there() -> None:
    writer = Writer()
    assert writer.transmitter.recording is not None
    writer.transmitter.recording = Recording(writer.folder, max_bytes=1_000_000)
    writer.send_layers(Schema(1, ["a"] * 500))
    for step in range(1000):
        writer.send_layers(Layers(1, step, None, EPOCH + step, {"grad_norm": column("f4", [1.0] * 500)}))
        writer.train(step, 1)
    writer.exit()
    writer.close()
    assert registry.read_tombstone(writer.folder).frames > 100
    arrivals, status = read(writer.folder)
    first = next(arrival.record for arrival in arrivals if isinstance(arrival.record, Layers))
    line = f"the layers before step {first.ordinal:,} were removed to keep to NTSTOP_MAX_DISK"
    assert first.ordinal > 100 and len(ordinals(arrivals)) == 1000
    assert (status.gaps, status.corrupt, status.problem, status.removed) == (0, 0, "", line)
    source = RunSource(writer.folder.parent, live=False)
    while source.poll(0.0):
        pass
    assert (source.status.gaps, source.status.removed) == (0, line)
    # What is missing beside it is missing.
    segment = sorted(writer.folder.glob("layers-*.nts"))[1]
    lost = len(FrameReader().feed(segment.read_bytes()))
    segment.unlink()
    assert read(writer.folder)[1].gaps == lost
