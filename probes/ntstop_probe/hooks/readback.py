"""Numbers from the device without waiting for it: copied into pinned memory, looked at when the copy is done.

Nothing here synchronizes, allocates pinned memory or creates an event after the first use of a device, and nothing at
all happens while a CUDA graph is being captured. A full ring drops the number: the job is never made to wait.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import Any

SCALAR_SLOTS = 256
"""Single numbers under way per device: a host seldom runs more than some dozens of steps ahead, with a few each."""
BLOCK_SLOTS = 8
"""Blocks of layer norms under way per device: a sample is two or three."""


class Ticket:
    """Numbers under way. Once `ready`, `values` holds them, in order; empty: they were lost."""

    __slots__ = ("_ready", "factor", "values")

    def __init__(self) -> None:
        self._ready = False
        self.factor = 1.0
        """By which `value` is multiplied."""
        self.values: list[float] = []

    @property
    def ready(self) -> bool:
        """Nothing will change any more."""
        return self._ready

    @property
    def value(self) -> float | None:
        """The first number; None while under way, or lost."""
        return self.values[0] * self.factor if self.values else None

    def settle(self, values: list[float]) -> None:
        """The numbers have arrived (or, with an empty list, are lost)."""
        self.values = values
        self._ready = True


class _Ring:
    """Slots of pinned float32 memory on the way from one device, each with its event, used in turn."""

    def __init__(self, torch: Any, slots: int, width: int) -> None:
        self.width = width
        self._memory = torch.empty((slots, width), dtype=torch.float32, pin_memory=True)
        self._slots = [(self._memory[index], torch.cuda.Event()) for index in range(slots)]
        self._free = deque(range(slots))
        self._waiting: deque[tuple[int, int, Ticket]] = deque()
        self._torch = torch

    def submit(self, tensor: Any, stream: Any) -> Ticket | None:
        if not self._free:
            return None
        ticket, count = Ticket(), tensor.numel()
        index = self._free.popleft()
        row, event = self._slots[index]
        row[:count].copy_(tensor.reshape(-1), non_blocking=True)
        event.record(stream)
        self._waiting.append((index, count, ticket))
        return ticket

    def poll(self) -> None:
        while self._waiting:
            index, count, ticket = self._waiting[0]
            row, event = self._slots[index]
            if not event.query():
                return
            self._waiting.popleft()
            ticket.settle(row[:count].tolist())
            self._free.append(index)

    def drop(self) -> None:
        while self._waiting:
            self._waiting.popleft()[2].settle([])


class Readback:
    """Reads tensors of any device: CPU at once, CUDA later through a ring, others not at all (None)."""

    def __init__(self) -> None:
        self._scalars: dict[int, _Ring] = {}
        self._blocks: dict[int, _Ring] = {}

    def read(self, scalar: Any) -> float | Ticket | None:
        """Value of a one-element tensor, or the ticket for it; None when this device, or this moment, forbids it."""
        device = scalar.device.type
        if device == "cpu":
            return float(scalar.item())
        if device != "cuda":
            return None
        return self._submit(self._scalars, scalar, SCALAR_SLOTS, 1)

    def read_block(self, block: Any) -> list[float] | Ticket | None:
        """As `read`, for a flat tensor of numbers."""
        device = block.device.type
        if device == "cpu":
            values: list[float] = block.tolist()
            return values
        if device != "cuda":
            return None
        return self._submit(self._blocks, block, BLOCK_SLOTS, max(1024, 2 * block.numel()))

    def _submit(self, rings: dict[int, _Ring], tensor: Any, slots: int, width: int) -> Ticket | None:
        torch = sys.modules["torch"]
        if torch.cuda.is_current_stream_capturing():
            return None
        device = tensor.device
        ring = rings.get(device.index)
        if ring is None or ring.width < tensor.numel():
            if ring is not None:
                ring.drop()
            ring = rings[device.index] = _Ring(torch, slots, width)
        with torch.no_grad():
            return ring.submit(tensor.detach(), torch.cuda.current_stream(device))

    def poll(self) -> bool:
        """Settle what has arrived, on the training thread. False: a graph is being captured, and nobody may ask."""
        if not (self._scalars or self._blocks):
            return True
        if sys.modules["torch"].cuda.is_current_stream_capturing():
            return False
        for ring in self._scalars.values():
            ring.poll()
        for ring in self._blocks.values():
            ring.poll()
        return True
