"""Samplers: what they measure, what they leave out, and that one which fails takes nothing with it."""

from __future__ import annotations

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
from ntstop_probe.sampling import rota as rota_module
from ntstop_probe.sampling.allocator import AllocatorSampler
from ntstop_probe.sampling.host import HostSampler, usable_cores
from ntstop_probe.sampling.nvml import open_nvml, visible_devices
from ntstop_probe.sampling.rota import Rota, SamplingThread
from ntstop_probe.wire import Allocator, Host, Record

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


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, {0: 0, 1: 1, 2: 2, 3: 3}),
        ({"CUDA_VISIBLE_DEVICES": "2,0"}, {0: 2, 1: 0}),
        ({"CUDA_VISIBLE_DEVICES": " 3 "}, {0: 3}),
        ({"CUDA_VISIBLE_DEVICES": ""}, {}),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, {}),
        ({"CUDA_VISIBLE_DEVICES": "1,9,2"}, {0: 1}),
        ({"CUDA_VISIBLE_DEVICES": "GPU-cccc3333,GPU-dd"}, {0: 2, 1: 3}),
        ({"CUDA_VISIBLE_DEVICES": "GPU-aaa"}, {}),
        ({"LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "4"}, {2: 2}),
        ({"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "CUDA_VISIBLE_DEVICES": "3,2"}, {1: 2}),
        ({"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "CUDA_VISIBLE_DEVICES": "3"}, {0: 3}),
        ({"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}, {0: 0, 1: 1, 2: 2, 3: 3}),
    ],
)
def test_only_the_devices_of_this_process_are_polled(environment: dict[str, str], expected: dict[int, int]) -> None:
    assert visible_devices(UUIDS, environment) == expected


STUB = r"""
#include <string.h>
typedef struct { unsigned int gpu, memory; } utilization_t;
typedef struct { unsigned long long total, free, used; } memory_t;
static int mig(void *device) { return device == (void *)2; }
int nvmlInitWithFlags(unsigned flags) { return 0; }
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    *device = (void *)(unsigned long)(index + 1); return 0;
}
int nvmlDeviceGetUUID(void *device, char *out, unsigned size) {
    strcpy(out, mig(device) ? "GPU-bbbb" : "GPU-aaaa"); return 0;
}
int nvmlDeviceGetName(void *device, char *out, unsigned size) { strcpy(out, "Stub H100"); return 0; }
int nvmlDeviceGetUtilizationRates(void *device, utilization_t *out) {
    if (mig(device)) return 3;  /* NVML_ERROR_NOT_SUPPORTED */
    out->gpu = 63; out->memory = 20; return 0;
}
int nvmlDeviceGetMemoryInfo(void *device, memory_t *out) {
    out->total = 80ull << 30; out->used = 61ull << 30; out->free = 19ull << 30; return 0;
}
int nvmlDeviceGetPowerUsage(void *device, unsigned *out) {
    if (mig(device)) return 4;  /* NVML_ERROR_NO_PERMISSION */
    *out = 412500; return 0;
}
int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *out) { *out = 700000; return 0; }
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *out) { *out = 71; return 0; }
const char *nvmlErrorString(int code) { return "stub error"; }
"""


@pytest.fixture(scope="module")
def stub_nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a driver library that has two devices, the second as a MIG slice answers."""
    folder = tmp_path_factory.mktemp("nvml")
    (folder / "nvml.c").write_text(STUB)
    command = ["gcc", "-shared", "-fPIC", "-o", str(folder / "libnvidia-ml.so.1"), str(folder / "nvml.c")]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("needs gcc to make a stand-in for the NVIDIA driver's library")
    return folder


def test_gpus_are_read_through_the_real_bindings_and_what_is_not_supported_is_missing(stub_nvml: Path) -> None:
    script = textwrap.dedent(
        """
        from ntstop_probe.sampling.nvml import open_nvml
        sampler = open_nvml()
        assert sampler is not None and sampler.interval >= 1.0
        first, second = sampler.sample()
        print((first.index, first.uuid, first.name, first.utilization, first.memory_used, first.memory_total,
               first.power, first.power_limit, first.temperature))
        print((second.index, second.uuid, second.utilization, second.memory_used, second.power))
        """
    )
    environment = {**os.environ, "LD_LIBRARY_PATH": str(stub_nvml)}
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    gib = 2**30
    assert first == str((0, "GPU-aaaa", "Stub H100", 63.0, 61 * gib, 80 * gib, 412.5, 700.0, 71.0))
    assert second == str((1, "GPU-bbbb", None, 61 * gib, None))


def test_without_a_driver_there_is_no_gpu_sampler_and_no_complaint() -> None:
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        assert open_nvml() is None
    else:
        pytest.skip("this machine has an NVIDIA driver")


def test_the_allocator_is_read_only_once_the_job_has_initialized_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    state = {"initialized": False}

    def stats(index: int) -> dict[str, object]:
        assert state["initialized"], "must not be the one that initializes CUDA"
        size = 0 if index else 4096
        pools = (
            {
                name: {"all": {"current": size + n, "peak": 10**9}}
                for n, name in enumerate(["allocated_bytes", "reserved_bytes", "active_bytes"])
            }
            if not index
            else {}
        )
        return {**pools, "num_alloc_retries": 3, "num_ooms": 0}

    cuda = SimpleNamespace(is_initialized=lambda: state["initialized"], device_count=lambda: 2)
    fake = SimpleNamespace(cuda=cuda, _C=SimpleNamespace(_cuda_memoryStats=stats))
    monkeypatch.setitem(sys.modules, "torch", fake)
    sampler = AllocatorSampler()
    assert list(sampler.sample()) == []
    state["initialized"] = True
    (record,) = sampler.sample()
    assert isinstance(record, Allocator)
    assert (record.index, record.allocated, record.reserved, record.active) == (0, 4096, 4097, 4098)
    assert (record.inactive_split, record.retries, record.ooms) == (None, 3, 0)


def test_without_torch_or_without_cuda_in_it_the_allocator_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert list(AllocatorSampler().sample()) == []
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
    assert list(AllocatorSampler().sample()) == []
