"""Samplers: what they measure, what they leave out, and that one which fails takes nothing with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from ntstop_probe.sampling import Factory, Sampler
from ntstop_probe.sampling import rota as rota_module
from ntstop_probe.sampling.host import HostSampler, usable_cores
from ntstop_probe.sampling.rota import Rota, SamplingThread
from ntstop_probe.sampling.visible import visible_devices
from ntstop_probe.wire import Host, Record

from ..helpers import wait_until


class Counter:
    """A sampler that says how often it was asked, until it breaks."""

    def __init__(self, name: str, interval: float, breaks_at: int | None = None) -> None:
        self.name = name
        self.interval = interval
        self.asked = 0
        self._breaks_at = breaks_at

    def sample(self) -> Sequence[Record]:
        self.asked += 1
        if self.asked == self._breaks_at:
            raise RuntimeError("the driver has gone")
        return [Host(float(self.asked))]


def take(rota: Rota, now: float) -> list[Record]:
    return [record for measure in rota.due(now) for record in measure()]


def test_each_sampler_is_asked_at_its_own_interval() -> None:
    fast, slow = Counter("fast", 1.0), Counter("slow", 5.0)
    rota = Rota({"fast": lambda: fast, "slow": lambda: slow})
    for now in range(1, 12):
        take(rota, float(now))
    assert (fast.asked, slow.asked) == (11, 3)


def test_a_sampler_that_fails_is_switched_off_alone_and_said_once() -> None:
    fine, bad = Counter("fine", 1.0), Counter("bad", 1.0, breaks_at=3)
    rota = Rota({"bad": lambda: bad, "fine": lambda: fine})
    for now in range(1, 9):
        take(rota, float(now))
    assert (fine.asked, bad.asked) == (8, 3)
    assert rota.failed == ["bad: RuntimeError: the driver has gone"]


def test_a_sampler_that_cannot_be_made_or_has_nothing_to_measure_is_left_out() -> None:
    def broken() -> Sampler:
        raise ImportError("no module named psutil")

    factories: dict[str, Factory] = {"broken": broken, "nothing": lambda: None, "fine": lambda: Counter("fine", 1.0)}
    rota = Rota(factories)
    assert len(take(rota, 1.0)) == 1
    assert rota.failed == ["broken: ImportError: no module named psutil"]


def test_a_driver_that_does_not_answer_holds_up_nobody_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rota_module, "POLL", 0.01)
    monkeypatch.setattr(rota_module, "SILENCE", 0.1)
    release = threading.Event()

    class Hanging(Counter):
        def sample(self) -> Sequence[Record]:
            release.wait(30)
            return super().sample()

    hanging = Hanging("gpu", 0.0)
    sampling = SamplingThread({"gpu": lambda: hanging})
    sampling.start()
    try:
        wait_until(lambda: sampling.disabled == ["gpu: does not answer"])
        assert sampling.take() == []
        release.set()
        wait_until(sampling.take)
        assert sampling.disabled == [], "it has come back"
    finally:
        release.set()
        sampling.stop()


class Holding(Counter):
    """A sampler that holds something outside the process."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


def test_what_a_sampler_holds_is_let_go_of_when_it_fails_and_when_the_job_ends() -> None:
    failing, fine = Holding("failing", 0.0, breaks_at=2), Holding("fine", 0.0)
    sampling = SamplingThread({"failing": lambda: failing, "fine": lambda: fine})
    sampling.start()
    wait_until(lambda: failing.closed == 1 and fine.asked > 2)
    assert fine.closed == 0
    sampling.stop()
    wait_until(lambda: fine.closed == 1)
    assert failing.closed == 1


def test_a_fault_of_the_rota_itself_is_said_once_and_the_samplers_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rota_module, "POLL", 0.01)
    faults = iter([MemoryError("a"), SystemExit("b"), MemoryError("a")])
    due = Rota.due

    def failing(self: Rota, now: float) -> object:
        for fault in faults:
            raise fault
        return due(self, now)

    monkeypatch.setattr(Rota, "due", failing)
    sampling = SamplingThread({"host": lambda: Counter("host", 0.0)})
    sampling.start()
    wait_until(sampling.take)
    assert sampling.disabled == ["samplers: MemoryError: a", "samplers: SystemExit: b"]
    sampling.stop()


def host_of(sampler: HostSampler) -> Host:
    (record,) = sampler.sample()
    assert isinstance(record, Host)
    return record


def test_the_host_sample_is_what_psutil_says() -> None:
    sampler = HostSampler()
    first = host_of(sampler)
    assert first.process_cpu is None, "a rate needs two samples: missing is not zero"
    assert first.host_cpu is None
    assert first.memory_total == psutil.virtual_memory().total
    assert first.process_rss == pytest.approx(psutil.Process().memory_info().rss, rel=0.2)
    assert first.cores == usable_cores() == len(os.sched_getaffinity(0))


def test_cpu_is_measured_in_cores() -> None:
    sampler = HostSampler()
    host_of(sampler)
    wall, used = time.monotonic(), time.process_time()
    while time.process_time() - used < 0.3:
        pass
    spent = (time.process_time() - used) / (time.monotonic() - wall)
    sample = host_of(sampler)
    assert sample.process_cpu == pytest.approx(spent, abs=0.15)
    assert sample.host_cpu is not None
    assert sample.cores is not None
    assert 0.5 * spent < sample.host_cpu <= (os.cpu_count() or 1) + 0.1


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are listed by Linux only")
def test_children_are_counted_with_their_cpu_and_memory() -> None:
    before = host_of(HostSampler()).children or 0
    burn = "import sys; print(flush=True)\nwhile True: pass"
    child = subprocess.Popen([sys.executable, "-c", burn], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        sampler = HostSampler()
        first = host_of(sampler)
        assert first.children == before + 1
        assert (first.children_rss or 0) > 2**20
        assert 0 < (first.children_private or 0) <= (first.children_rss or 0)
        assert first.children_cpu is None
        wait_until(lambda: (host_of(sampler).children_cpu or 0.0) > 0.05, interval=0.3)
    finally:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()
    assert host_of(sampler).children == before


UUIDS = ["GPU-aaaa1111", "GPU-aaab2222", "GPU-cccc3333", "GPU-dddd4444"]
PARTS = {"GPU-aaab2222": ["MIG-1111", "MIG-2222"], "GPU-cccc3333": []}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, [0, 1, 2, 3]),
        ({"CUDA_VISIBLE_DEVICES": "2,0"}, [2, 0]),
        ({"CUDA_VISIBLE_DEVICES": " 3 "}, [3]),
        ({"CUDA_VISIBLE_DEVICES": ""}, []),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, []),
        ({"CUDA_VISIBLE_DEVICES": "1,9,2"}, [1]),
        ({"CUDA_VISIBLE_DEVICES": "1,1,2"}, [1]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-cccc3333,GPU-dd"}, [2, 3]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-aaa"}, []),
        ({"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "CUDA_VISIBLE_DEVICES": "3"}, [3]),
        ({"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}, [0, 1, 2, 3]),
    ],
)
def test_only_the_devices_of_this_process_are_its_own(environment: dict[str, str], expected: list[int]) -> None:
    assert visible_devices(UUIDS, environment) == {index: UUIDS[place] for index, place in enumerate(expected)}


def test_where_every_rank_sees_all_devices_its_own_is_that_of_its_local_rank() -> None:
    assert visible_devices(UUIDS, {"LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "4"}) == {2: UUIDS[2]}
    swapped = {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "CUDA_VISIBLE_DEVICES": "3,2"}
    assert visible_devices(UUIDS, swapped) == {1: UUIDS[2]}


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        ("MIG-2222", ["MIG-2222"]),
        ("MIG-2222,MIG-1111", ["MIG-2222"]),
        ("1", ["MIG-1111"]),
        ("GPU-aaab2222", ["MIG-1111"]),
        ("MIG-3", []),
        ("MIG-", []),
        ("0,1", ["GPU-aaaa1111"]),
        ("2", ["GPU-cccc3333"]),
    ],
)
def test_a_process_sees_one_part_of_a_divided_gpu(visible: str, expected: list[str]) -> None:
    found = visible_devices(UUIDS, {"CUDA_VISIBLE_DEVICES": visible}, PARTS)
    assert found == dict(enumerate(expected))


@pytest.mark.skipif(not Path("/dev/shm").exists(), reason="there is no shared memory here")
def test_the_shared_memory_is_what_the_file_system_says() -> None:
    found, sample = shutil.disk_usage("/dev/shm"), host_of(HostSampler())
    assert sample.shared_total == found.total and 0 <= (sample.shared_used or 0) <= found.total
