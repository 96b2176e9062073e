"""What is read of GPUs: through the driver's library, compiled as a stub, and of torch's allocator."""

from __future__ import annotations

import ast
import ctypes
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

from ntstop_probe.sampling import allocator as allocator_module
from ntstop_probe.sampling.allocator import AllocatorSampler
from ntstop_probe.sampling.nvml import open_nvml
from ntstop_probe.wire import Allocator

from .nvml_stub import compile_stub


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
