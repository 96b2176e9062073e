"""Samplers: what the publisher thread measures by itself, about once a second, beside what the hooks tell it.

A sampler that fails is switched off alone; the others, the heartbeat and the job go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol

from ..imports import importing
from ..wire import Record


class Sampler(Protocol):
    """Something that can be measured again and again from the publisher thread."""

    name: str
    """As the screen calls it: "host", "gpu", "allocator"."""
    interval: float
    """Seconds between two samples."""

    def sample(self) -> Sequence[Record]:
        """Measure. Whatever it raises switches this sampler off."""
        ...


Factory = Callable[[], Sampler | None]
"""Makes a sampler in the publisher thread, where its imports are paid for; None when there is nothing to measure."""


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


class Rota:
    """Runs samplers when they are due. `disabled` says which failed and why, each "name: reason"."""

    def __init__(self, factories: dict[str, Factory]) -> None:
        self.disabled: list[str] = []
        self._waiting = dict(factories)
        self._samplers: list[Sampler] = []
        self._due: dict[str, float] = {}

    def due(self, now: float) -> Iterator[Callable[[], list[Record]]]:
        """The measurements to take at `now`, monotonic seconds; the caller may rest between them. None raises."""
        while self._waiting:
            name, factory = self._waiting.popitem()
            yield partial(self._start, name, factory)
        for sampler in self._samplers:
            if now >= self._due[sampler.name]:
                self._due[sampler.name] = now + sampler.interval
                yield partial(self._sample, sampler)

    def _start(self, name: str, factory: Factory) -> list[Record]:
        try:
            with importing():
                sampler = factory()
        except Exception as error:
            self._disable(name, error)
        else:
            if sampler is not None:
                self._samplers = [*self._samplers, sampler]
                self._due[sampler.name] = 0.0
        return []

    def _sample(self, sampler: Sampler) -> list[Record]:
        try:
            return list(sampler.sample())
        except Exception as error:
            self._samplers = [other for other in self._samplers if other is not sampler]
            self._disable(sampler.name, error)
            return []

    def _disable(self, name: str, error: Exception) -> None:
        self.disabled.append(f"{name}: {type(error).__name__}: {error}"[:200])
