"""GPUs through NVML: only the cheap calls, and only the devices this process may use."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..wire import Device, Record


class NvmlSampler:
    """What the driver does not say (MIG has no utilization) is None, never 0."""

    name = "gpu"
    interval = 1.0

    def __init__(self, nvml: Any, handles: dict[int, Any]) -> None:
        """`nvml` is the module `pynvml`, initialized; `handles` its devices by their index in this process."""
        self._nvml = nvml
        self._devices = [(index, handle, *self._who(handle)) for index, handle in handles.items()]

    def sample(self) -> Sequence[Record]:
        """A `Device` record for each device."""
        return [self._device(*device) for device in self._devices]

    def _device(self, index: int, handle: Any, uuid: str, name: str) -> Device:
        nvml = self._nvml
        utilization = self._ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        memory = self._ask(nvml.nvmlDeviceGetMemoryInfo, handle)
        power = self._ask(nvml.nvmlDeviceGetPowerUsage, handle)
        limit = self._ask(nvml.nvmlDeviceGetEnforcedPowerLimit, handle)
        temperature = self._ask(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU)
        return Device(
            t=time.monotonic(),
            index=index,
            uuid=uuid,
            name=name,
            utilization=None if utilization is None else float(utilization.gpu),
            memory_used=None if memory is None else int(memory.used),
            memory_total=None if memory is None else int(memory.total),
            power=None if power is None else power / 1000,
            power_limit=None if limit is None else limit / 1000,
            temperature=None if temperature is None else float(temperature),
        )

    def _who(self, handle: Any) -> tuple[str, str]:
        uuid = self._ask(self._nvml.nvmlDeviceGetUUID, handle)
        name = self._ask(self._nvml.nvmlDeviceGetName, handle)
        return _text(uuid), _text(name)

    def _ask(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """The driver's answer; None when this device or this user does not get one."""
        try:
            return call(*arguments)
        except (self._nvml.NVMLError_NotSupported, self._nvml.NVMLError_NoPermission):
            return None


def open_nvml(environment: Mapping[str, str] | None = None) -> NvmlSampler | None:
    """A sampler for the GPUs of this process; None where there is no NVIDIA driver or no GPU for it.

    Raises `pynvml.NVMLError` when there is a driver that does not answer.
    """
    environment = os.environ if environment is None else environment
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    import pynvml

    pynvml.nvmlInit()
    handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    uuids = [_text(pynvml.nvmlDeviceGetUUID(handle)) for handle in handles]
    chosen = visible_devices(uuids, environment)
    return NvmlSampler(pynvml, {index: handles[position] for index, position in chosen.items()}) if chosen else None


def visible_devices(uuids: Sequence[str], environment: Mapping[str, str]) -> dict[int, int]:
    """The devices of this process: their index in CUDA's eyes, and their position in `uuids`, NVML's order.

    `CUDA_VISIBLE_DEVICES` holds numbers or beginnings of UUIDs; like CUDA, stop at the first that is neither. Where
    every rank sees all devices, this rank's own is the one of its `LOCAL_RANK`: one poller a device on a node.
    """
    given = environment.get("CUDA_VISIBLE_DEVICES")
    positions: list[int] = []
    if given is None:
        positions = list(range(len(uuids)))
    else:
        for word in (part.strip() for part in given.split(",")):
            position = _position(word, uuids)
            if position is None or position in positions:
                break
            positions.append(position)
    devices = dict(enumerate(positions))
    try:
        local_rank = int(environment["LOCAL_RANK"])
        local_world = int(environment.get("LOCAL_WORLD_SIZE", "1"))
    except (KeyError, ValueError):
        return devices
    if 1 < local_world <= len(devices) and local_rank in devices:
        return {local_rank: devices[local_rank]}
    return devices


def _position(word: str, uuids: Sequence[str]) -> int | None:
    if word.isdigit():
        return int(word) if int(word) < len(uuids) else None
    matches = [position for position, uuid in enumerate(uuids) if word and uuid.startswith(word)]
    return matches[0] if len(matches) == 1 else None


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")
