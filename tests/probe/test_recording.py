"""The recording: whole frames or nothing, private files, segments, and a disk that fills up."""

from __future__ import annotations

import errno
import os
import resource
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from ntstop_probe import recording as recording_module
from ntstop_probe.disk import SPARE_NAME
from ntstop_probe.recording import Recording
from ntstop_probe.transmitter import Transmitter
from ntstop_probe.wire import (
    STREAM_CORE,
    STREAM_LAYERS,
    Event,
    FrameReader,
    Hello,
    Scalars,
    Schema,
    decode_batch,
    encode_frame,
)

from .reading import frames_of, records_of

WRITER = 5


def hello() -> Hello:
    return Hello(1, "run", "writer", "host", "boot", "ns", 1, 0.0, 0, 0.0, 0.0)


def transmitter(recording: Recording) -> Transmitter:
    made = Transmitter(WRITER, hello)
    made.recording = recording
    return made


def test_the_files_are_private_and_named_by_stream_and_number(tmp_path: Path) -> None:
    sender = transmitter(Recording(tmp_path))
    sender.send(STREAM_CORE, [Event(1.0, "mark")])
    sender.send(STREAM_LAYERS, [Schema(1, ["a"])])
    assert sorted(path.name for path in tmp_path.iterdir()) == [SPARE_NAME, "core-000000.nts", "layers-000000.nts"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_what_was_written_is_there_at_once(tmp_path: Path) -> None:
    sender = transmitter(Recording(tmp_path))
    for number in range(3):
        sender.send(STREAM_CORE, [Event(float(number), "mark")])
        assert records_of(frames_of(tmp_path))[-1] == Event(float(number), "mark")


def test_every_segment_begins_with_who_writes_and_which_layers_there_are(tmp_path: Path) -> None:
    sender = transmitter(Recording(tmp_path, segment_bytes=2000))
    schema = Schema(3, ["layer.weight"])
    sender.send(STREAM_LAYERS, [schema])
    for number in range(60):
        sender.send(STREAM_CORE, [Event(float(number), "mark", "x" * 100)])
    segments = sorted(tmp_path.glob("core-*.nts"))
    assert len(segments) > 3
    for path in segments:
        first, *_ = FrameReader().feed(path.read_bytes())
        assert decode_batch(first.payload)[0] == [hello(), schema]
        assert path.stat().st_size < 2000 + 400
    numbers = [frame.sequence for frame in frames_of(tmp_path)]
    assert numbers == list(range(1, len(numbers) + 1)), "one count over both streams, without a hole"
    events = [record for record in records_of(frames_of(tmp_path)) if isinstance(record, Event)]
    assert [event.t for event in events] == [float(number) for number in range(60)]


def test_a_file_that_exists_is_never_written_into(tmp_path: Path) -> None:
    (tmp_path / "core-000000.nts").write_bytes(b"another writer's")
    recording = Recording(tmp_path)
    recording.open_segment(STREAM_CORE)
    assert not recording.write(STREAM_CORE, b"frame")
    assert "exists" in recording.problem
    assert (tmp_path / "core-000000.nts").read_bytes() == b"another writer's"


def test_a_write_that_breaks_off_is_taken_back_and_a_new_segment_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording_module, "RETRY_SECONDS", 0.0)
    sender = transmitter(Recording(tmp_path))
    sender.send(STREAM_CORE, [Event(0.0, "mark")])
    real_write, room = os.write, [30]

    def small_disk(descriptor: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = real_write(descriptor, data[: room[0]])
        room[0] -= written
        return written

    monkeypatch.setattr(os, "write", small_disk)
    size = (tmp_path / "core-000000.nts").stat().st_size
    sender.send(STREAM_CORE, [Event(1.0, "mark", "lost")])
    assert (tmp_path / "core-000000.nts").stat().st_size == size, "no half frame stays behind"
    assert sender.recording is not None
    assert "No space left" in sender.recording.problem
    sender.send(STREAM_CORE, [Event(2.0, "mark", "lost too")])
    assert sender.unrecorded >= 2
    monkeypatch.setattr(os, "write", real_write)
    sender.send(STREAM_CORE, [Event(3.0, "mark")])
    assert sender.recording.problem == ""
    kept = records_of(frames_of(tmp_path))
    assert [record.t for record in kept if isinstance(record, Event)] == [0.0, 3.0]
    sequences = [frame.sequence for frame in frames_of(tmp_path)]
    assert sequences[-1] - len(sequences) == sender.unrecorded, "the hole in the count says how much is missing"
    assert all(path.stat().st_size for path in tmp_path.iterdir()), "a segment that got nothing is not left behind"


def test_a_recording_that_is_deleted_under_the_job_is_said_and_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording_module, "RETRY_SECONDS", 0.0)
    sender = transmitter(Recording(tmp_path))
    assert sender.recording is not None
    sender.send(STREAM_CORE, [Event(0.0, "mark")])
    (tmp_path / "core-000000.nts").unlink()
    sender.send(STREAM_CORE, [Event(1.0, "mark")])
    assert "deleted" in sender.recording.problem
    assert sender.unrecorded == 1
    sender.send(STREAM_CORE, [Event(2.0, "mark")])
    assert [record.t for record in records_of(frames_of(tmp_path)) if isinstance(record, Event)] == [2.0]


def test_a_full_disk_is_not_tried_for_every_frame(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "gone")
    assert recording.wants_segment(STREAM_CORE)
    recording.open_segment(STREAM_CORE)
    assert recording.problem
    assert not recording.wants_segment(STREAM_CORE)
    assert not recording.write(STREAM_CORE, encode_frame(STREAM_CORE, WRITER, 1, b""))


def test_a_limit_of_the_system_on_the_file_ends_in_whole_frames(tmp_path: Path) -> None:
    """A real partial write by the kernel: RLIMIT_FSIZE cuts it at the limit, as a full disk does."""
    script = textwrap.dedent(
        """
        import pathlib, resource, sys
        from ntstop_probe.recording import Recording
        from ntstop_probe.wire import encode_frame
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
        recording = Recording(pathlib.Path(sys.argv[1]))
        recording.open_segment(0)
        written = [recording.write(0, encode_frame(0, 1, n, bytes(300))) for n in range(40)]
        print(sum(written), bool(recording.problem))
        """
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    whole = 5000 // (300 + 36)
    assert done.stdout.split() == [str(whole), "True"]
    assert len(frames_of(tmp_path)) == whole
    assert (tmp_path / "core-000000.nts").stat().st_size == whole * (300 + 36)
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 5000


def test_a_record_that_cannot_be_put_into_bytes_costs_only_itself(tmp_path: Path) -> None:
    sender = transmitter(Recording(tmp_path))
    fine = [Event(1.0, "mark"), Event(3.0, "mark")]
    for bad in (Scalars(2.0, 10**30, 0), Event(2.0, "mark", data={"x": object()})):
        sender.send(STREAM_CORE, [fine[0], bad, fine[1]])
    sender.send(STREAM_CORE, [Event(2.0, "mark", "half \ud800")])
    kept = [record for record in records_of(frames_of(tmp_path)) if not isinstance(record, Hello)]
    assert kept == [*fine * 2, Event(2.0, "mark", "half ?")], "half a character is replaced"
    assert sender.unencodable == 2
