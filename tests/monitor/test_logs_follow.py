"""Logs that grow, shrink, are replaced or damaged while they are followed, and what lies in folders."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ntstop.session import Session
from ntstop.sources.base import SourceError
from ntstop.sources.logs.discover import log_targets
from ntstop.sources.logs.printed import TextSource
from ntstop.sources.logs.source import LogSource
from ntstop.sources.pipe import Pipe
from ntstop_probe.wire import Steps
from tests.helpers import wait_until

from .logs import EVENTS, GOLDEN, WANDB, curve, drained, loaded


def followed(path: Path) -> Session:
    (target,) = log_targets(path)
    session = Session(LogSource(target))
    session.start()
    return session


def points(session: Session, name: str = "loss") -> list[float]:
    with session.lock:
        process = session.state.primary
        return [] if process is None or name not in process.series else [x for x, _ in curve(session, name)]


def test_lines_appear_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text("step,loss\n1,3\n")
    session = followed(path)
    try:
        wait_until(lambda: points(session) == [1])
        with path.open("a") as file:
            file.write("2,2.5\n3,2")
        wait_until(lambda: points(session) == [1, 2])
        with path.open("a") as file:
            file.write(".25\n")
        wait_until(lambda: points(session) == [1, 2, 3])
        with session.lock:
            assert curve(session, "loss")[-1] == (3, 2.25)
            assert session.entry is not None and session.entry.state == "growing"
    finally:
        session.stop()


def test_a_new_event_file_in_the_folder_is_the_same_run(tmp_path: Path) -> None:
    data = EVENTS.read_bytes()
    (tmp_path / "events.1").write_bytes(data[: len(data) // 2])
    session = followed(tmp_path)
    try:
        half = wait_until(lambda: points(session))
        (tmp_path / "events.2").write_bytes(data)
        wait_until(lambda: len(points(session)) == len(half) + 30)
        assert len(session.state.processes) == 1
    finally:
        session.stop()


def test_a_table_that_is_written_anew_with_more_columns_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text("step,loss\n" + "".join(f"{n},{9 - n}\n" for n in range(5)))
    source = LogSource(log_targets(path)[0])
    before = drained(source)
    path.write_text("step,loss,val_loss\n" + "".join(f"{n},{9 - n},\n" for n in range(5)) + "5,3,4\n")
    after = drained(source)
    session = Session(LogSource(log_targets(path)[0]))
    for arrival in before + after:
        session.state.apply(arrival.writer, arrival.record)
    assert curve(session, "loss") == [(0, 9), (1, 8), (2, 7), (3, 6), (4, 5), (5, 3)]
    assert curve(session, "val_loss") == [(5, 4)] and len(session.state.processes) == 1


@pytest.mark.parametrize("how", ["truncated", "replaced"])
def test_another_log_under_the_same_name_is_the_next_attempt(tmp_path: Path, how: str) -> None:
    path = tmp_path / "m.csv"
    path.write_text("step,loss\n" + "".join(f"{n},{9 - n}\n" for n in range(8)))
    session = followed(path)
    try:
        wait_until(lambda: len(points(session)) == 8)
        new = "step,loss\n" + "".join(f"{n},0.5\n" for n in range(3 if how == "truncated" else 100))
        if how == "truncated":
            path.write_text(new)
        else:
            (tmp_path / "new").write_text(new)
            os.replace(tmp_path / "new", path)
        wait_until(lambda: len(points(session)) == 8 + new.count("\n") - 1)
        primary = session.state.primary
        assert primary is not None and primary.attempt == 1
    finally:
        session.stop()


def test_a_trainer_state_that_is_written_anew_brings_its_new_entries(tmp_path: Path) -> None:
    whole = (GOLDEN / "trainer_state.json").read_bytes()
    path = tmp_path / "trainer_state.json"
    path.write_bytes(whole[:2000])
    session = followed(path)
    try:
        wait_until(lambda: points(session))
        path.write_bytes(whole)
        wait_until(lambda: points(session) == list(range(10, 401, 10)))
        assert len(session.state.processes) == 1
    finally:
        session.stop()


def test_the_state_of_the_next_checkpoint_goes_on_from_the_one_before(tmp_path: Path) -> None:
    whole = (GOLDEN / "trainer_state.json").read_bytes()

    def checkpoint(number: int, data: bytes) -> None:
        folder = tmp_path / f"checkpoint-{number}"
        folder.mkdir()
        (folder / "trainer_state.json").write_bytes(data)
        os.utime(folder / "trainer_state.json", (1e9 + number, 1e9 + number))

    checkpoint(10, whole[:2000])
    session = followed(tmp_path)
    try:
        wait_until(lambda: points(session))
        checkpoint(20, whole)
        wait_until(lambda: points(session) == list(range(10, 401, 10)))
        assert len(session.state.processes) == 1
    finally:
        session.stop()


def test_a_file_that_goes_away_is_said_and_keeps_what_it_gave(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text("step,loss\n1,3\n")
    session = followed(path)
    try:
        wait_until(lambda: points(session) == [1])
        path.unlink()
        wait_until(lambda: "no such file" in session.status.problem)
        assert points(session) == [1]
    finally:
        session.stop()


def test_the_last_line_of_a_log_that_has_ended_counts_without_its_end(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text("step,loss\n1,3\n2,2")
    os.utime(path, (1e9, 1e9))
    session = loaded(path)
    assert curve(session, "loss") == [(1, 3), (2, 2)]
    assert session.entry is not None and session.entry.state == "quiet"


def test_bad_lines_are_counted_and_the_rest_is_used(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text("step,loss\n1,3\n2,2e\nx\n3,2\n")
    session = loaded(path)
    assert curve(session, "loss") == [(1, 3), (3, 2)]
    assert session.status.problem == "2 lines or entries could not be read"


def test_a_folder_of_folders_holds_a_run_each(tmp_path: Path) -> None:
    for name in ("a", "b/c"):
        (tmp_path / name).mkdir(parents=True)
        shutil.copy(EVENTS, tmp_path / name)
    (tmp_path / "csv").mkdir()
    shutil.copy(GOLDEN / "lightning-metrics.csv", tmp_path / "csv" / "metrics.csv")
    shutil.copy(WANDB, tmp_path / "csv2.wandb")
    for step in (10, 20):
        (tmp_path / "hf" / f"checkpoint-{step}").mkdir(parents=True)
        shutil.copy(GOLDEN / "trainer_state.json", tmp_path / "hf" / f"checkpoint-{step}")
    # What lies about: numbers that are no training, and no log at all.
    (tmp_path / "iris.csv").write_text("sepal,petal\n1,2\n3,4\n")
    (tmp_path / "labels.txt").write_text("0 0.5 0.5\n")
    names = {target.name for target in log_targets(tmp_path)}
    assert names == {"a", "c", "csv/metrics.csv", f"{tmp_path.name}/csv2.wandb", "hf"}


def test_a_folder_with_ten_thousand_files_is_looked_through(tmp_path: Path) -> None:
    for number in range(10_000):
        (tmp_path / f"{number:05d}.txt").write_bytes(b"0 0.5 0.5\n")
    shutil.copy(EVENTS, tmp_path / "zzz")
    (target,) = log_targets(tmp_path)
    assert target.path == tmp_path


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (bytes(range(256)) * 40, "is binary"),
        (b"name,colour\na,red\nb,blue\n", "without a column of numbers"),
        (b"nothing to see here\n", "no numbers of a training"),
        (b"\xf1NTS" + bytes(60), "a recording of ntstop: open the folder .* what a relay wrote"),
    ],
)
def test_what_is_no_log_is_said_in_one_line(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(data)
    with pytest.raises(SourceError, match=says) as caught:
        log_targets(path)
    assert "\n" not in str(caught.value)


def test_a_fifo_and_an_empty_folder(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(SourceError, match="is a pipe"):
        log_targets(tmp_path / "fifo")
    with pytest.raises(SourceError, match="neither a run nor a log"):
        log_targets(tmp_path)


def test_memory_stays_bounded_for_a_large_file(tmp_path: Path) -> None:
    """100 MB of text that holds next to nothing, in a process of its own; 5 GB read the same way."""
    path = tmp_path / "big.log"
    with path.open("wb") as file:
        file.write(b"step 1 loss 3\n")
        for _ in range(100):
            file.write((b"z" * 1023 + b"\n") * 1024)
        file.write(b"step 2 loss 2\n")
    code = (
        "import resource, sys\nfrom pathlib import Path\nfrom ntstop.sources.logs.discover import log_targets\n"
        "from ntstop.sources.logs.source import LogSource\n"
        "source = LogSource(log_targets(Path(sys.argv[1]))[0]); source.live = False\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "n = 0\nwhile arrivals := source.poll(0.0):\n"
        "    n += sum(a.record.count for a in arrivals if hasattr(a.record, 'losses'))\n"
        "print(n, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    steps, grown = map(int, done.stdout.split())
    assert steps == 2 and grown < 60_000


def test_what_a_program_prints_is_followed_through_a_pipe() -> None:
    reading, writing = os.pipe()
    session = Session(TextSource(Pipe(reading)))
    session.start()
    try:
        os.write(writing, b"step 1 loss 3\nstep 2 lo")
        wait_until(lambda: points(session) == [1])
        os.write(writing, b"ss 2\nstep 3 loss 1")
        os.close(writing)
        wait_until(lambda: points(session) == [1, 2, 3])
        wait_until(lambda: session.entry is not None and session.entry.why.startswith("the pipe has ended"))
    finally:
        session.stop()


def test_a_pipe_without_numbers_is_an_error_when_it_ends() -> None:
    reading, writing = os.pipe()
    threading.Thread(target=lambda: (os.write(writing, b"hello\n"), os.close(writing))).start()
    with pytest.raises(SourceError, match="no numbers of a training"):
        Session(TextSource(Pipe(reading))).load()


def test_steps_that_come_without_a_pause_are_shown_before_a_block_of_them_is_full(tmp_path: Path) -> None:
    read, write = os.pipe()
    source = TextSource(Pipe(read))
    stop = threading.Event()

    def train() -> None:
        with os.fdopen(write, "w") as out:
            for step in itertools.count():
                if stop.wait(0.02):
                    return
                print(f"step {step} loss {3.0 / (step + 1)}", file=out, flush=True)

    thread = threading.Thread(target=train)
    thread.start()
    try:
        steps = wait_until(lambda: [a.record for a in source.poll(0.25) if isinstance(a.record, Steps)])
        assert sum(block.count for block in steps) < 100
    finally:
        stop.set()
        thread.join()
        source.close()


def test_a_log_that_goes_back_begins_a_new_segment_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("".join(f"step {step} loss {5 - 0.1 * step:.2f}\n" for step in (*range(1, 16), *range(10, 21))))
    session = loaded(path)
    assert [x for x, _ in curve(session, "loss")] == [*range(1, 16), *range(10, 21)]
    process = session.state.primary
    assert process is not None
    (event,) = process.events
    assert (event.kind, event.step, event.text) == ("resume", 10, "the log goes back from step 15 to 10")
    assert set(process.series["loss"].window(0, 30, 60).segment.tolist()) == {0, 1}


@pytest.mark.parametrize("steps", [[*range(5), *range(5)], [1, 2, 10**9, 3, 4], [1, 3, 2, 4, 4, 5]])
def test_epochs_that_count_anew_and_odd_steps_are_no_resume(tmp_path: Path, steps: list[int]) -> None:
    path = tmp_path / "train.log"
    path.write_text("".join(f"step {step} loss 3.5\n" for step in steps))
    process = loaded(path).state.primary
    assert process is not None and not process.events


@pytest.mark.parametrize("name", ["table", "events"])
def test_a_file_of_another_format_may_come_through_a_pipe(tmp_path: Path, name: str) -> None:
    data = EVENTS.read_bytes() if name == "events" else b"step,loss\n" + b"".join(b"%d,0.5\n" % n for n in range(50))
    read, write = os.pipe()
    threading.Thread(target=lambda: (os.write(write, data), os.close(write))).start()
    session = Session(TextSource(Pipe(read)))
    session.load()
    assert len(curve(session, "loss")) == (30 if name == "events" else 50)
