"""Samplers: what the probe measures by itself, about once a second, beside what the hooks tell it.

A sampler that fails is switched off alone; the others, the heartbeat and the job go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ..wire import Record


class Sampler(Protocol):
    """Something that can be measured again and again, from the samplers' thread."""

    name: str
    """As the screen calls it: "host", "gpu", "allocator"."""
    interval: float
    """Seconds between two samples."""

    def sample(self) -> Sequence[Record]:
        """Measure. Whatever it raises switches this sampler off."""
        ...


Factory = Callable[[], Sampler | None]
"""Makes a sampler in the samplers' thread, where its imports are paid for; None when there is nothing to measure."""


def standard_samplers() -> dict[str, Factory]:
    """Every sampler there is, by name."""

    def host() -> Sampler:
        from .host import HostSampler

        return HostSampler()

    def gpu() -> Sampler | None:
        from .nvml import open_nvml

        return open_nvml()

    def allocator() -> Sampler:
        from .allocator import AllocatorSampler

        return AllocatorSampler()

    return {"host": host, "gpu": gpu, "allocator": allocator}
