"""Jobs that close descriptors they do not own, and use the numbers again: nothing of ours gets into their files."""

from __future__ import annotations

import os
from pathlib import Path

from ntstop_probe.recording import Recording
from ntstop_probe.wire import STREAM_CORE, STREAM_LAYERS

from .jobs import run


def test_a_file_in_the_place_of_stderr_gets_no_line_of_the_probes(home: Path, tmp_path: Path) -> None:
    script = """
        train(0.2)
        os.close(2)
        file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
        assert file == 2
        ntstop_probe.log(text="no number")
        train(0.5)
        os.write(file, b"the job's own")
    """
    done = run(script, str(tmp_path / "data"))
    assert done.returncode == 0
    assert (tmp_path / "data").read_bytes() == b"the job's own"


def test_a_job_that_closes_every_descriptor_goes_on_and_its_files_are_its_own(home: Path, tmp_path: Path) -> None:
    """libzmq aborts the process where it finds its descriptors closed; as a daemon's start does, without a fork."""
    script = """
        train_until(recorded)
        train(0.3)
        os.closerange(3, 256)
        files = [open(f"{sys.argv[1]}/{number}", "wb") for number in range(40)]
        train(2.5)
        print("fine")
    """
    (tmp_path / "own").mkdir()
    done = run(script, str(tmp_path / "own"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("fine\n")
    assert {path.stat().st_size for path in (tmp_path / "own").iterdir()} == {0}
    assert sorted(line.partition(":")[0] for line in done.stderr.splitlines()) == ["ntstop", "ntstop"], done.stderr
    assert "the job has closed the live socket" in done.stderr
    assert "cannot record: the job has closed the file" in done.stderr


def test_a_segment_whose_descriptor_is_another_file_now_is_neither_written_nor_closed(tmp_path: Path) -> None:
    recording = Recording(tmp_path)
    recording.open_segment(STREAM_CORE)
    (number,) = (int(name) for name in os.listdir("/proc/self/fd") if _is_a_segment(name, tmp_path))
    other = os.open(tmp_path / "other", os.O_WRONLY | os.O_CREAT)
    os.dup2(other, number)
    assert not recording.write(STREAM_CORE, b"frame")
    assert (tmp_path / "other").stat().st_size == 0
    os.close(number)


def test_a_stream_that_cannot_be_written_is_told_while_the_other_can(tmp_path: Path) -> None:
    (tmp_path / "layers-000000.nts").mkdir()
    recording = Recording(tmp_path)
    recording.open_segment(STREAM_LAYERS)
    recording.open_segment(STREAM_CORE)
    assert recording.write(STREAM_CORE, b"frame")
    assert "exists" in recording.problem
    recording.open_segment(STREAM_LAYERS)
    assert recording.write(STREAM_LAYERS, b"frame")
    assert recording.problem == ""
    recording.close()


def test_a_job_that_breaks_the_clock_sees_no_traceback_of_ours_at_its_end(home: Path) -> None:
    script = """
        def broken():
            raise RuntimeError("no time")
        train(0.2)
        time.monotonic = time.time = time.perf_counter = broken
        print("fine")
    """
    done = run(script)
    assert done.returncode == 0
    assert done.stdout.endswith("fine\n")
    assert all(line.startswith("ntstop: ") for line in done.stderr.splitlines()), done.stderr


def _is_a_segment(descriptor: str, folder: Path) -> bool:
    path = Path("/proc/self/fd") / descriptor
    return path.exists() and path.resolve().parent == folder
