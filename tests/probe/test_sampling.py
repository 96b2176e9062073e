"""Samplers: what they measure, what they leave out, and that one which fails takes nothing with it."""

from __future__ import annotations

import ast
import ctypes
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from ntstop_probe.sampling import Factory, Sampler
from ntstop_probe.sampling import allocator as allocator_module
from ntstop_probe.sampling import rota as rota_module
from ntstop_probe.sampling.allocator import AllocatorSampler
from ntstop_probe.sampling.host import HostSampler, usable_cores
from ntstop_probe.sampling.nvml import open_nvml
from ntstop_probe.sampling.rota import Rota, SamplingThread
from ntstop_probe.sampling.visible import visible_devices
from ntstop_probe.wire import Allocator, Host, Record

from ..helpers import wait_until
from .nvml_stub import compile_stub


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


@pytest.fixture(scope="module")
def stub_nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a driver library in it."""
    return compile_stub(tmp_path_factory.mktemp("nvml"))


def with_driver(stub: Path, script: str, **more: str) -> list[str]:
    """The lines that `script` prints in a process that has this driver."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(stub), **more}
    if "CUDA_VISIBLE_DEVICES" not in more:
        environment.pop("CUDA_VISIBLE_DEVICES", None)
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


READ = """
from ntstop_probe.sampling.nvml import open_nvml
driver = open_nvml()
if driver is not None:
    for device in driver.read():
        print({name: getattr(device, name) for name in device.__struct_fields__ if name != "t"})
    print(dict(driver.own()))
"""


def test_gpus_are_read_through_the_real_bindings_and_what_is_not_said_is_missing(stub_nvml: Path) -> None:
    *devices, own = with_driver(stub_nvml, READ)
    whole, divided, shy, part, other = (ast.literal_eval(line) for line in devices)
    gib = 2**30
    assert whole == {
        "index": 0,
        "uuid": "GPU-uuid-1",
        "name": "Stub H100",
        "utilization": 63.0,
        "memory_used": 20 * gib,
        "memory_total": 80 * gib,
        "power": 412.5,
        "power_limit": 700.0,
        "temperature": 71.0,
        "throttle": ["power cap", "thermal slowdown (hardware)"],
        "ecc_uncorrected": 2,
        "lost": False,
    }
    assert (divided["uuid"], divided["utilization"], divided["memory_total"]) == ("GPU-uuid-2", None, 80 * gib)
    assert (shy["power"], shy["ecc_uncorrected"], shy["throttle"], shy["utilization"]) == (None, None, [], 63.0)
    assert (part["uuid"], part["name"], part["memory_total"]) == ("MIG-uuid-21", "Stub H100 MIG 3g.40gb", 40 * gib)
    for name in ("utilization", "power", "power_limit", "temperature", "ecc_uncorrected"):
        assert part[name] is None, name
    assert other["uuid"] == "MIG-uuid-22"
    assert ast.literal_eval(own) == {0: "GPU-uuid-1", 1: "GPU-uuid-3"}


def test_a_process_without_a_device_does_not_ask_the_driver(stub_nvml: Path) -> None:
    assert with_driver(stub_nvml, READ, CUDA_VISIBLE_DEVICES="") == []
    assert ast.literal_eval(with_driver(stub_nvml, READ, CUDA_VISIBLE_DEVICES="1")[-1]) == {0: "MIG-uuid-21"}


def test_a_gpu_that_is_lost_in_the_middle_of_the_run_is_said_to_be_and_the_others_go_on(
    stub_nvml: Path, tmp_path: Path
) -> None:
    script = """
        import os, pathlib
        from ntstop_probe.sampling import standard_samplers
        sampler = standard_samplers()["gpu"]()
        def show():
            print([(device.uuid, device.lost, device.utilization) for device in sampler.sample()])
        show()
        lost = pathlib.Path(os.environ["STUB_LOST"])
        lost.touch()
        show()
        lost.unlink()
        show()
    """
    before, while_lost, after = with_driver(stub_nvml, script, STUB_LOST=str(tmp_path / "lost"))
    assert before == after == str([("GPU-uuid-1", False, 63.0), ("GPU-uuid-3", False, 63.0)])
    assert while_lost == str([("GPU-uuid-1", True, None), ("GPU-uuid-3", False, 63.0)])


def test_without_a_driver_there_is_no_gpu_sampler_and_no_complaint() -> None:
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        assert open_nvml() is None
    else:
        pytest.skip("this machine has an NVIDIA driver")


class FakeCuda:
    """What the sampler uses of torch: statistics of two devices, of which the second has nothing reserved."""

    def __init__(self) -> None:
        self.initialized = False
        self.blocks = 10
        self.snapshots = 0
        self.reads = 0
        self.cuda = SimpleNamespace(
            is_initialized=lambda: self.initialized, device_count=lambda: 2, memory_snapshot=self.snapshot
        )
        self._C = SimpleNamespace(_cuda_memoryStats=self.stats)

    def stats(self, index: int) -> dict[str, object]:
        assert self.initialized, "must not be the one that initializes CUDA"
        self.reads += 1
        if index:
            return {"reserved_bytes": {"all": {"current": 0}}, "num_alloc_retries": 0, "num_ooms": 0}
        names = ("allocated_bytes", "reserved_bytes", "active_bytes", "inactive_split_bytes")
        stats: dict[str, object] = {
            name: {"all": {"current": 4096 + place, "peak": 10**9}} for place, name in enumerate(names)
        }
        stats["active"] = {"all": {"current": self.blocks}}
        return {**stats, "num_alloc_retries": 3, "num_ooms": 1}

    def snapshot(self, *, include_traces: bool) -> list[dict[str, object]]:
        assert not include_traces
        self.snapshots += 1
        blocks = [("active_allocated", 9000), ("inactive", 512), ("active_awaiting_free", 8000), ("inactive", 2048)]
        return [{"device": 0, "blocks": [{"state": state, "size": size} for state, size in blocks]}]


@pytest.fixture
def fake_cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    fake = FakeCuda()
    monkeypatch.setitem(sys.modules, "torch", fake)
    return fake


def allocator_of(sampler: AllocatorSampler) -> Allocator:
    (record,) = sampler.sample()
    assert isinstance(record, Allocator)
    return record


def test_the_allocator_is_read_only_once_the_job_has_initialized_cuda(fake_cuda: FakeCuda) -> None:
    sampler = AllocatorSampler()
    assert list(sampler.sample()) == []
    fake_cuda.initialized = True
    record = allocator_of(sampler)
    assert (record.index, record.allocated, record.reserved, record.active) == (0, 4096, 4097, 4098)
    assert (record.inactive_split, record.retries, record.ooms) == (4099, 3, 1)
    assert fake_cuda.reads == 2, "one call a device"


def test_the_largest_free_block_is_looked_for_rarely_and_only_where_there_are_few(fake_cuda: FakeCuda) -> None:
    fake_cuda.initialized, fake_cuda.blocks = True, allocator_module.MAX_BLOCKS + 1
    sampler = AllocatorSampler()
    assert allocator_of(sampler).largest_free is None
    assert fake_cuda.snapshots == 0
    fake_cuda.blocks = 10
    assert allocator_of(sampler).largest_free == 2048
    assert allocator_of(sampler).largest_free is None, "missing is not zero"
    assert fake_cuda.snapshots == 1


def test_a_version_of_torch_that_has_no_small_snapshot_gives_the_rest(fake_cuda: FakeCuda) -> None:
    fake_cuda.initialized = True
    fake_cuda.cuda.memory_snapshot = lambda: []
    record = allocator_of(AllocatorSampler())
    assert (record.allocated, record.largest_free) == (4096, None)


def test_without_torch_or_without_cuda_in_it_the_allocator_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert list(AllocatorSampler().sample()) == []
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
    assert list(AllocatorSampler().sample()) == []
