"""Which runs there are and how they are: by evidence, in words that say what it is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from ntstop.session import Session
from ntstop.sources import runs
from ntstop.sources.base import SourceError
from ntstop_probe import registry
from ntstop_probe.wire import Event

from ..helpers import wait_until
from .permissions import as_nobody
from .writer import EPOCH, Writer, column, core, steps


def only() -> runs.RunEntry:
    (entry,) = runs.scan()
    return entry


def test_a_process_that_only_announced_itself_is_waiting() -> None:
    Writer()
    entry = only()
    assert entry.state == "waiting"
    assert entry.active
    assert str(os.getpid()) in entry.why


def test_a_process_that_runs_is_live_however_long_it_is_silent() -> None:
    writer = Writer()
    writer.train(0, 10)
    writer.beat(10, phase="backward")
    old = time.time() - 3_600
    os.utime(core(writer), (old, old))
    entry = only()
    assert entry.state == "live"
    assert entry.processes[0].phase == "backward"


def test_a_stopped_process_is_stopped_and_live_again_when_continued(job: subprocess.Popen[bytes]) -> None:
    writer = Writer(pid=job.pid)
    writer.train(0, 10)
    job.send_signal(signal.SIGSTOP)
    wait_until(lambda: only().state == "stopped")
    assert "SIGSTOP" in only().why
    job.send_signal(signal.SIGCONT)
    wait_until(lambda: only().state == "live")


def test_a_killed_process_died_even_as_a_zombie(job: subprocess.Popen[bytes]) -> None:
    writer = Writer(pid=job.pid)
    writer.train(0, 10)
    job.kill()
    wait_until(lambda: only().state == "died", timeout=5)
    job.wait()
    entry = only()
    assert entry.state == "died"
    assert f"pid {job.pid} is gone and left no exit record" in entry.why
    assert not entry.active


def test_a_pid_that_now_belongs_to_another_process_is_gone() -> None:
    writer = Writer()
    writer.train(0, 10)
    writer.started -= 100
    writer.announce()
    assert only().state == "died"


@pytest.mark.parametrize(("code", "state"), [(0, "finished"), (1, "failed"), (-9, "failed"), (None, "finished")])
def test_an_exit_record_decides(code: int | None, state: str) -> None:
    writer = Writer()
    writer.train(0, 10)
    writer.exit(code)
    entry = only()
    assert entry.state == state
    assert code is None or entry.processes[0].exit_code == code
    assert ("exit code unknown" in entry.why) == (code is None)


def test_an_exception_is_a_failure_and_is_named(job: subprocess.Popen[bytes]) -> None:
    writer = Writer(pid=job.pid)
    writer.train(0, 10)
    writer.send(Event(EPOCH, "exception", "ValueError: bad batch\ntraceback"))
    job.kill()
    job.wait()
    assert only().state == "failed"
    assert "ValueError: bad batch" in only().why and "traceback" not in only().why


@pytest.mark.parametrize("text", ["KeyboardInterrupt", "KeyboardInterrupt: "])
def test_an_exception_without_a_message_is_its_name_alone(text: str, job: subprocess.Popen[bytes]) -> None:
    writer = Writer(pid=job.pid)
    writer.train(0, 10)
    writer.send(Event(EPOCH, "exception", text), Event(EPOCH, "exit", data={"code": None}))
    assert only().why == "it ended with KeyboardInterrupt"


def test_on_another_host_a_silent_run_is_stale_and_never_died() -> None:
    writer = Writer(host="node17", pid=3_999_999)
    writer.train(0, 10)
    writer.beat(10)
    assert only().state == "live"
    _age(writer, 14)
    assert only().state == "live"
    _age(writer, 16)
    entry = only()
    assert entry.state == "stale"
    assert "on node17" in entry.why and "cannot be checked" in entry.why


def test_in_another_pid_namespace_a_pid_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(pid=3_999_999)
    writer.train(0, 10)
    monkeypatch.setattr(registry, "pid_namespace", lambda: "pid:[1]")
    _age(writer, 60)
    assert only().state == "stale"
    assert "another container" in only().why


def test_after_a_reboot_a_pid_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer()
    writer.train(0, 10)
    monkeypatch.setattr(registry, "boot_id", lambda: "another")
    _age(writer, 60)
    assert only().state == "stale"
    assert "before this host was booted last" in only().why


def _age(writer: Writer, seconds: float) -> None:
    """Let the last write, and the announcement, be that long ago; heartbeats are taken out."""
    when = time.time() - seconds
    path = core(writer)
    path.unlink()
    writer.transmitter.recording = type(writer.transmitter.recording)(writer.folder)  # type: ignore[misc,arg-type]
    writer.train(0, 10)
    os.utime(path, (when, when))


def test_the_latest_attempt_decides_and_ranks_are_counted() -> None:
    first = Writer("run-1", rank=0, attempt=0, pid=3_999_999)
    first.train(0, 100)
    for rank in (0, 1):
        writer = Writer("run-1", rank=rank, attempt=1)
        writer.train(0, 50 + rank, at=80)
    entry = only()
    assert (entry.state, entry.ranks, entry.attempt) == ("live", 2, 1)
    assert (entry.first_step, entry.last_step) == (0, 129)
    assert [(p.rank, p.attempt) for p in entry.processes] == [(0, 1), (0, 0), (1, 1)]


def test_a_lost_rank_is_named_while_the_others_live() -> None:
    Writer("run-1", rank=0).train(0, 10)
    Writer("run-1", rank=1, pid=3_999_999).train(0, 10)
    entry = only()
    assert entry.state == "live"
    assert "rank 1: pid 3999999 is gone" in entry.why


def test_a_launcher_with_the_probe_in_it_does_not_decide() -> None:
    launcher = Writer("run-1", pid=3_999_999)
    info = registry.read_process_info(launcher.folder)
    registry.write_process_info(launcher.folder, type(info)(**{**_fields(info), "training": False}))
    worker = Writer("run-1", rank=0)
    worker.train(0, 10)
    worker.exit(0)
    assert only().state == "finished"
    assert only().ranks == 1


def _fields(info: registry.ProcessInfo) -> dict[str, object]:
    return {name: getattr(info, name) for name in info.__struct_fields__}


def test_an_entry_tells_steps_loss_rate_and_title() -> None:
    writer = Writer(title="gpt-small")
    writer.train(0, 1_000, at=5_000)
    writer.beat(1_000)
    entry = only()
    assert (entry.first_step, entry.last_step, entry.last_loss) == (5_000, 5_999, 999.0)
    assert entry.rate == pytest.approx(10)
    assert entry.title == "gpt-small"
    assert entry.last_activity == pytest.approx(time.time(), abs=60)


def test_the_rate_is_that_of_the_screen_and_not_of_the_last_block_alone() -> None:
    """The last block may be one step, with a checkpoint in it."""
    writer = Writer()
    writer.train(0, 200)
    writer.send(msgspec.structs.replace(steps(200, [1.0]), duration=column("f4", [5.0])))
    session = Session(writer.run)
    session.load()
    assert session.state.primary is not None
    assert only().rate == pytest.approx(64 / (63 * 0.1 + 5.0))
    assert session.state.primary.rate == pytest.approx(only().rate)


def test_only_the_ends_of_a_long_recording_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer()
    writer.train(0, 20_000, block=200)
    writer.beat(20_000)
    size = core(writer).stat().st_size
    assert size > 800_000
    read = 0
    real = runs.read_tail.__globals__["_records"]

    def counting(data: bytes) -> object:
        nonlocal read
        read += len(data)
        return real(data)

    monkeypatch.setitem(runs.read_tail.__globals__, "_records", counting)
    entry = only()
    assert (entry.first_step, entry.last_step) == (0, 19_999)
    assert read < 400_000


def test_a_block_larger_than_the_tail_is_found() -> None:
    writer = Writer()
    writer.train(0, 10)
    for _ in range(3_000):
        writer.beat(10)
    assert core(writer).stat().st_size > 150_000
    assert only().last_step == 9


def test_a_run_is_found_by_id_prefix_and_folder() -> None:
    writer = Writer("train-abc")
    Writer("other-def")
    run = writer.folder.parent
    for text in ("train-abc", "train", "t", str(run), f"{run}/", str(writer.folder)):
        assert runs.resolve(text).id == "train-abc"
    assert runs.resolve(str(writer.folder)).path == writer.folder


def test_an_exact_id_wins_over_longer_ones() -> None:
    Writer("train")
    Writer("train-2")
    assert runs.resolve("train").id == "train"


def test_a_folder_outside_of_the_home_opens_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer("train-abc")
    copy = tmp_path / "copied"
    writer.folder.parent.rename(copy)
    assert runs.resolve(str(copy)).processes[0].state == "waiting"
    monkeypatch.chdir(tmp_path)
    assert runs.resolve("copied").path == copy


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("train-x", "there is no run 'train-x'; the nearest: train-2, train-1; `ntstop ls` lists all"),
        ("train.csv", "there is no run and no file 'train.csv'; the nearest: "),
        ("trai", "'trai' is the beginning of 2 runs: train-2, train-1"),
        ("/nowhere/at/all", "/nowhere/at/all: there is no such file or folder"),
        ("other", "there is no run 'other'; the newest: train-2, train-1; `ntstop ls` lists all"),
        ("", "there is no run ''; the newest: "),
    ],
)
def test_a_run_that_is_not_meant_clearly_is_one_clear_line(text: str, message: str) -> None:
    for index, name in enumerate(("train-1", "train-2")):
        folder = Writer(name).folder.parent
        os.utime(folder, (1_000 + index, 1_000 + index))
    with pytest.raises(SourceError) as caught:
        runs.resolve(text)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_folder_without_a_run_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no run in it"):
        runs.resolve(f"{tmp_path}/")


def test_without_any_run_the_line_says_so(home: Path) -> None:
    with pytest.raises(SourceError, match="no run has been recorded yet"):
        runs.resolve("anything")
    assert runs.scan() == []
    assert runs.newest_live() is None


def test_a_run_without_permission_is_listed_with_its_problem(open_home: Path) -> None:
    writer = Writer("secret")
    Writer("mine").folder.parent.chmod(0o755)
    (open_home / "runs" / "mine").chmod(0o755)
    writer.folder.parent.chmod(0o000)

    def look() -> None:
        by_id = {entry.id: entry for entry in runs.scan()}
        assert by_id["secret"].problem.endswith("permission denied (only its owner may read a run)")
        assert not by_id["secret"].active
        runs.resolve("secret")

    assert as_nobody(look).startswith("SourceError: ") and "secret: permission denied" in as_nobody(look)


def test_a_newer_protocol_is_listed_with_its_problem() -> None:
    Writer("newer").announce(protocol=2)
    assert "pip install -U ntstop" in only().problem
    with pytest.raises(SourceError, match="protocol 2, this one reads 1"):
        runs.resolve("newer")


def test_rubbish_among_the_runs_is_no_obstacle(home: Path) -> None:
    writer = Writer("good")
    (home / "runs" / "a-file").write_text("x")
    (home / "runs" / "empty-run").mkdir()
    (home / "runs" / "broken" / "process").mkdir(parents=True)
    (home / "runs" / "broken" / "process" / registry.PROCESS_FILE).write_text("{not json")
    core(writer).write_bytes(os.urandom(5_000))
    assert {entry.id for entry in runs.scan()} == {"good", "empty-run", "broken"}


def test_a_folder_that_no_process_has_come_to_is_no_live_run(home: Path) -> None:
    (home / "runs" / "empty").mkdir(parents=True)
    assert only().state == "waiting"
    assert runs.newest_live() is None


@pytest.mark.parametrize("name", [registry.PROCESS_FILE, "core-000000.nts", "core-000001.nts"])
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_no_file_in_the_place_of_one_keeps_nobody_waiting(name: str, kind: str) -> None:
    writer = Writer("run-1")
    writer.train(0, 20)
    path = writer.folder / name
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    assert only().last_step == (None if name == "core-000000.nts" else 19)
    session = Session("run-1")
    session.load()
    assert session.error is None
    assert bool(session.status.problem) == name.startswith("core")


def test_an_announcement_with_absurd_numbers_is_no_obstacle() -> None:
    writer = Writer("run-1")
    writer.train(0, 20)
    info = registry.read_process_info(writer.folder)
    absurd = msgspec.structs.replace(info, attempt=-5, rank=-7, pid=-1, wall=-1e308, started=1e308)
    registry.write_process_info(writer.folder, absurd)
    assert only().last_step == 19


def test_a_process_whose_name_is_cut_within_a_character_lives() -> None:
    """The kernel keeps 15 bytes of a name: five characters of three bytes each, or four and a part of the fifth."""
    with_a_name = (
        "import sys; open('/proc/self/comm', 'wb').write('x训练进程一'.encode()[:15]); "
        "print(flush=True); sys.stdin.read()"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", with_a_name], stdin=pipe, stdout=pipe) as job:
        assert job.stdout is not None
        job.stdout.readline()
        with pytest.raises(UnicodeDecodeError):
            Path(f"/proc/{job.pid}/stat").read_text("utf-8")
        writer = Writer("run-1", pid=job.pid)
        writer.train(0, 20)
        assert only().state == "live"


def test_the_newest_live_run_is_the_one_started_last(job: subprocess.Popen[bytes]) -> None:
    Writer("older").train(0, 10)
    Writer("newer", pid=job.pid).train(0, 10)
    Writer("dead", pid=3_999_999).train(0, 10)
    newest = runs.newest_live()
    assert newest is not None and newest.id == "newer"
    assert [entry.id for entry in runs.active_runs()] == ["newer", "older"]


def test_listing_runs_loads_neither_numpy_nor_zmq_nor_textual() -> None:
    code = (
        "import sys, ntstop.sources.runs; "
        "print([name for name in ('numpy', 'zmq', 'textual', 'torch', 'psutil') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
