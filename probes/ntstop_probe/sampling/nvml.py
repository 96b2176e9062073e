"""The driver of NVIDIA, through NVML: only the calls that are cheap. What it does not say is None, never 0."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..wire import Device
from .visible import visible_devices

THROTTLE_REASONS = {
    0x02: "applications clocks setting",
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal slowdown (software)",
    0x40: "thermal slowdown (hardware)",
    0x80: "power brake",
    0x100: "display clock setting",
}
"""Bits of nvmlDeviceGetCurrentClocksThrottleReasons, of nvml.h; 0x01 is an idle GPU, which nothing slows down."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A GPU, or a part of one (MIG), as it was enumerated."""

    handle: Any
    uuid: str
    name: str
    divided: bool = False


class NvmlDriver:
    """A `Driver`. Enumerates once; `read` asks about each device what it may."""

    name = "nvml"

    def __init__(self, nvml: Any, environment: Mapping[str, str]) -> None:
        """`nvml` is the module `pynvml`, initialized."""
        self._nvml = nvml
        self._silence = (
            nvml.NVMLError_NotSupported,
            nvml.NVMLError_NoPermission,
            nvml.NVMLError_FunctionNotFound,
            nvml.NVMLError_InvalidArgument,
        )
        wholes = [self._found(nvml.nvmlDeviceGetHandleByIndex(index)) for index in range(nvml.nvmlDeviceGetCount())]
        parts = {whole.uuid: self._parts(whole) for whole in wholes}
        self._devices = [*wholes, *(part for pieces in parts.values() for part in pieces)]
        self.uuids: Sequence[str] = [device.uuid for device in self._devices]
        names = {uuid: [piece.uuid for piece in pieces] for uuid, pieces in parts.items()}
        self._own = visible_devices([whole.uuid for whole in wholes], environment, names)

    def own(self) -> Mapping[int, str]:
        """UUID by the index in CUDA's eyes."""
        return self._own

    def read(self) -> list[Device]:
        """Every device. One that has fallen off the bus is `lost`; the others are read all the same."""
        return [self._device(index, found) for index, found in enumerate(self._devices)]

    def _device(self, index: int, found: _Found) -> Device:
        now = time.monotonic()
        try:
            return self._read(now, index, found)
        except (self._nvml.NVMLError_GpuIsLost, self._nvml.NVMLError_ResetRequired):
            return Device(t=now, index=index, uuid=found.uuid, name=found.name, lost=True)

    def _read(self, now: float, index: int, found: _Found) -> Device:
        nvml, handle = self._nvml, found.handle
        utilization = self._ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        memory = self._ask(nvml.nvmlDeviceGetMemoryInfo, handle)
        power = self._ask(nvml.nvmlDeviceGetPowerUsage, handle)
        limit = self._ask(nvml.nvmlDeviceGetEnforcedPowerLimit, handle)
        temperature = self._ask(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU)
        reasons = self._ask(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle) or 0
        errors = self._ask(
            nvml.nvmlDeviceGetTotalEccErrors, handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
        )
        return Device(
            t=now,
            index=index,
            uuid=found.uuid,
            name=found.name,
            # Older drivers answer 0 for a divided GPU, which means nothing.
            utilization=None if utilization is None or found.divided else float(utilization.gpu),
            memory_used=None if memory is None else int(memory.used),
            memory_total=None if memory is None else int(memory.total),
            power=None if power is None else power / 1000,
            power_limit=None if limit is None else limit / 1000,
            temperature=None if temperature is None else float(temperature),
            throttle=[reason for bit, reason in THROTTLE_REASONS.items() if reasons & bit],
            ecc_uncorrected=None if errors is None else int(errors),
        )

    def _found(self, handle: Any) -> _Found:
        nvml = self._nvml
        mode = self._ask(nvml.nvmlDeviceGetMigMode, handle)
        uuid, name = self._ask(nvml.nvmlDeviceGetUUID, handle), self._ask(nvml.nvmlDeviceGetName, handle)
        return _Found(handle, _text(uuid), _text(name), divided=mode is not None and mode[0] == 1)

    def _parts(self, whole: _Found) -> list[_Found]:
        """The MIG devices of a GPU, in the order of their places, some of which are empty."""
        nvml, found = self._nvml, []
        if not whole.divided:
            return []
        for index in range(self._ask(nvml.nvmlDeviceGetMaxMigDeviceCount, whole.handle) or 0):
            try:
                handle = self._ask(nvml.nvmlDeviceGetMigDeviceHandleByIndex, whole.handle, index)
            except nvml.NVMLError_NotFound:
                continue
            if handle is not None:
                found.append(self._found(handle))
        return found

    def _ask(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """The driver's answer; None when this device, this driver or this user does not get one."""
        try:
            return call(*arguments)
        except self._silence:
            return None


def open_nvml(environment: Mapping[str, str] | None = None) -> NvmlDriver | None:
    """The driver, where there is one and this process has a GPU; else None.

    Raises `pynvml.NVMLError` when there is a driver that does not answer.
    """
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    import pynvml

    pynvml.nvmlInit()
    driver = NvmlDriver(pynvml, os.environ if environment is None else environment)
    return driver if driver.own() else None


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")
