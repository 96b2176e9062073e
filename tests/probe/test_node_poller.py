"""One process of a node asks the driver; the others read its answers, and one of them takes over when it goes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from ntstop_probe.endpoint import safe_folder
from ntstop_probe.sampling import node
from ntstop_probe.sampling.election import Seat
from ntstop_probe.sampling.node import Board, NodeSampler, Snapshot
from ntstop_probe.wire import Device

from ..helpers import wait_until
from .nvml_stub import compile_stub, polls

RANK = """
import sys, time
from ntstop_probe.sampling import node, standard_samplers
node.FRESH = float(sys.argv[1])
sampler = standard_samplers()["gpu"]()
sampler.interval = 0.05
print("ready", flush=True)
while True:
    for device in sampler.sample():
        print(f"{device.t:.6f} {device.index} {device.uuid} {device.utilization}", flush=True)
    if sys.stdin.isatty() or node.os.path.exists(sys.argv[2]):
        sampler.close()
        break
    time.sleep(0.05)
"""
"""A rank that samples twenty times as often as the real ones, so that the tests need not wait for seconds."""


class Rank:
    """Such a process, its lines read as they come."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[list[str]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.split())

    @property
    def seen(self) -> list[list[str]]:
        """Time, index, UUID and utilization of each record."""
        return [line for line in self.lines if len(line) == 4]


Start = Callable[..., Rank]


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_stub(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    folder = tmp_path / "calls"
    folder.mkdir()
    return folder


@pytest.fixture
def start(stub: Path, calls: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts ranks; they are killed at the end."""
    with ranks(stub, calls, tmp_path / "stop") as begin:
        yield begin


@contextmanager
def ranks(stub: Path, calls: Path, stop_file: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def begin(fresh: float = 0.5, **more: str) -> Rank:
        environment = {**os.environ, "LD_LIBRARY_PATH": str(stub), "STUB_CALLS": str(calls), **more}
        if "CUDA_VISIBLE_DEVICES" not in more:
            environment.pop("CUDA_VISIBLE_DEVICES", None)
        command = [sys.executable, "-c", RANK, str(fresh), str(stop_file)]
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return Rank(process)

    try:
        yield begin
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()
            for pipe in (process.stdout, process.stderr):
                assert pipe is not None
                pipe.close()


def shared_files() -> list[str]:
    return sorted(file.name for file in safe_folder().glob("ntstop-nvml-*"))


def pollers(calls: Path, past: Mapping[int, int]) -> set[int]:
    """Who has polled since the counts were `past`."""
    return {pid for pid, count in polls(calls).items() if count > past.get(pid, 0)}


def test_of_three_processes_one_polls_and_all_know_their_own_devices(start: Start, calls: Path) -> None:
    everything = start(fresh=5.0)
    by_number = start(fresh=5.0, CUDA_VISIBLE_DEVICES="2,0")
    by_name = start(fresh=5.0, CUDA_VISIBLE_DEVICES="MIG-uuid-22")
    wait_until(lambda: all(len(rank.seen) > 20 for rank in (everything, by_number, by_name)))
    assert len(polls(calls)) == 1, "one process asks the driver"
    assert {(line[1], line[2]) for line in by_number.seen} == {("0", "GPU-uuid-3"), ("1", "GPU-uuid-1")}
    assert {(line[1], line[2], line[3]) for line in by_name.seen} == {("0", "MIG-uuid-22", "None")}
    times = [float(line[0]) for line in by_name.seen]
    assert times == sorted(set(times)), "no answer is published twice"


def test_devices_of_other_control_groups_are_not_taken_for_ones_own(tmp_path: Path) -> None:
    """Two jobs of a user, each shown one GPU by its control group, both call it number 0."""
    one, two = (NodeSampler("gpu", FakeDriver([uuid]), tmp_path) for uuid in ("GPU-a", "GPU-b"))
    for sampler, uuid in ((one, "GPU-a"), (two, "GPU-b")):
        (device,) = sampler.sample()
        assert isinstance(device, Device)
        assert (device.index, device.uuid) == (0, uuid)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
def test_when_the_poller_is_killed_or_stopped_another_takes_over(
    start: Start, calls: Path, end: signal.Signals
) -> None:
    first = start()
    wait_until(lambda: first.seen)
    others = [start(), start()]
    wait_until(lambda: all(len(rank.seen) > 3 for rank in others))
    assert set(polls(calls)) == {first.process.pid}
    first.process.send_signal(end)
    counts = [len(rank.seen) for rank in others]
    wait_until(lambda: all(len(rank.seen) > count + 30 for rank, count in zip(others, counts, strict=True)))
    past = polls(calls)
    wait_until(lambda: sum(polls(calls).values()) > sum(past.values()) + 5)
    (new,) = pollers(calls, past)
    assert new in {rank.process.pid for rank in others}
    if end == signal.SIGSTOP:
        first.process.send_signal(signal.SIGCONT)
        count = len(first.seen)
        wait_until(lambda: len(first.seen) > count + 30)
        past = polls(calls)
        wait_until(lambda: sum(polls(calls).values()) > sum(past.values()) + 5)
        assert pollers(calls, past) == {new}, "who was stopped finds that another has taken over"


def test_a_poller_that_ends_leaves_its_place_and_the_last_one_leaves_nothing(
    stub: Path, calls: Path, tmp_path: Path
) -> None:
    with ranks(stub, calls, tmp_path / "first") as early, ranks(stub, calls, tmp_path / "second") as late:
        first = early(fresh=20.0)
        wait_until(lambda: first.seen)
        second = late(fresh=20.0)
        wait_until(lambda: second.seen)
        assert shared_files()
        (tmp_path / "first").touch()
        assert first.process.wait(20) == 0
        count = len(second.seen)
        wait_until(lambda: len(second.seen) > count + 10)
        assert pollers(calls, {first.process.pid: 10**9}) == {second.process.pid}
        (tmp_path / "second").touch()
        assert second.process.wait(20) == 0
        assert shared_files() == []


def test_a_forked_child_of_a_killed_poller_does_not_keep_its_place(tmp_path: Path) -> None:
    script = """
import os, sys, time
from pathlib import Path
from ntstop_probe.sampling.election import Seat
assert Seat([Path(sys.argv[1])]).take(1)
child = os.fork()
if child:
    print(child, flush=True)
    os.kill(os.getpid(), 9)
time.sleep(60)
"""
    seat = tmp_path / "seat"
    job = subprocess.Popen([sys.executable, "-c", script, str(seat)], stdout=subprocess.PIPE, text=True)
    assert job.stdout is not None
    child = int(job.stdout.readline())
    try:
        assert job.wait(20) == -signal.SIGKILL
        os.kill(child, 0)
        mine = Seat([seat])
        assert mine.take(1)
        mine.leave()
    finally:
        os.kill(child, signal.SIGKILL)
        job.stdout.close()


def test_a_file_that_the_job_has_put_in_the_place_of_the_lock_is_left_alone(tmp_path: Path) -> None:
    """Programs that go into the background close every descriptor there is, and the numbers are used again."""
    seat = Seat([tmp_path / "seat"])
    assert seat.take(1)
    (descriptor,) = (int(name) for name in os.listdir("/proc/self/fd") if links_to(name, tmp_path / "seat"))
    theirs = os.open(tmp_path / "theirs", os.O_WRONLY | os.O_CREAT)
    os.dup2(theirs, descriptor)
    assert not seat.held
    seat.leave()
    os.write(descriptor, b"still open")
    assert Seat([tmp_path / "seat"]).take(1), "the lock went with the descriptor"
    os.close(descriptor)
    os.close(theirs)


def links_to(name: str, path: Path) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{name}") == str(path)
    except OSError:
        return False


class FakeDriver:
    """Devices that answer at once, or raise."""

    name = "fake"

    def __init__(self, uuids: Sequence[str]) -> None:
        self.uuids = uuids
        self.polls = 0
        self.error: BaseException | None = None
        self.slow = 0.0

    def own(self) -> Mapping[int, str]:
        return dict(enumerate(self.uuids))

    def read(self) -> list[Device]:
        self.polls += 1
        time.sleep(self.slow)
        if self.error is not None:
            raise self.error
        return [Device(time.monotonic(), index, uuid) for index, uuid in enumerate(self.uuids)]


def board_of(folder: Path) -> Board:
    (path,) = folder.glob("*.devices")
    return Board(path)


def test_an_answer_of_another_is_used_while_it_is_fresh_and_only_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = FakeDriver(["GPU-a"])
    sampler = NodeSampler("gpu", driver, tmp_path)
    assert len(sampler.sample()) == 1
    board = board_of(tmp_path)
    now = time.monotonic()
    board.write(Snapshot(now, "another", [Device(now, 5, "GPU-x"), Device(now, 6, "GPU-a", utilization=12.0)]))
    (device,) = sampler.sample()
    assert isinstance(device, Device)
    assert (device.index, device.utilization) == (0, 12.0)
    assert driver.polls == 1
    assert sampler.sample() == [], "the same answer is not published again"
    for t in (now - node.FRESH - 1.0, now + 3600.0):
        board.write(Snapshot(t, "another", []))
        assert len(sampler.sample()) == 1, "too old, or of another boot"
    assert driver.polls == 3


@pytest.mark.parametrize("content", [b"", b"\xc1", b"\x93\x01\x02\x03", b"\x91" * 5000, os.urandom(400)])
def test_a_file_that_makes_no_sense_is_as_good_as_none(tmp_path: Path, content: bytes) -> None:
    driver = FakeDriver(["GPU-a"])
    sampler = NodeSampler("gpu", driver, tmp_path)
    sampler.sample()
    (path,) = tmp_path.glob("*.devices")
    path.write_bytes(content)
    assert len(sampler.sample()) == 1
    assert driver.polls == 2


def test_a_poller_whose_driver_fails_lets_another_try(tmp_path: Path) -> None:
    driver = FakeDriver(["GPU-a"])
    sampler = NodeSampler("gpu", driver, tmp_path)
    sampler.sample()
    driver.error = RuntimeError("unknown error")
    with pytest.raises(RuntimeError):
        sampler.sample()
    assert not list(tmp_path.glob("*.lock*"))


def test_an_answer_that_took_too_long_is_not_given_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "FRESH", 0.05)
    driver = FakeDriver(["GPU-a"])
    driver.slow = 0.1
    assert len(NodeSampler("gpu", driver, tmp_path).sample()) == 1
    assert not list(tmp_path.glob("*.devices"))


@pytest.mark.parametrize("missing", ["folder", "right"])
def test_without_a_folder_to_share_a_process_asks_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    def refuse() -> Path:
        raise OSError("no folder is safe")

    driver = FakeDriver(["GPU-a"])
    if missing == "folder":
        monkeypatch.setattr(node, "safe_folder", refuse)
        sampler = NodeSampler("gpu", driver)
    else:
        sampler = NodeSampler("gpu", driver, tmp_path / "gone")
    for _ in range(3):
        assert len(sampler.sample()) == 1
    sampler.close()
    assert driver.polls == 3
