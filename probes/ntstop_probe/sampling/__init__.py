"""Samplers: what the probe measures by itself, about once a second, beside what the hooks tell it.

host        the process and its host, through psutil
node        accelerators: one process of the node asks the driver, the others read what it has found
nvml        the driver of NVIDIA; visible: which of its devices are this process's
allocator   torch's caching allocator on CUDA
compiler    what torch.compile has done
rota        asks them when they are due, in a thread of their own

A sampler that fails is switched off alone; the others, the heartbeat and the job go on.

To add a vendor: write one file beside `nvml.py` with a class that is a `Driver` and a function that opens it (None
where there is no such driver or no device of this process), and add to `standard_samplers` a line that hands it to
`node.NodeSampler` under a name of its own. What the driver does not say stays None. The records, the screen and the
rules know accelerators only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from ..wire import Device, Record


class Sampler(Protocol):
    """Something that can be measured again and again, from the samplers' thread."""

    name: str
    """As the screen calls it: "host", "gpu", "allocator"."""
    interval: float
    """Seconds between two samples."""

    def sample(self) -> Sequence[Record]:
        """Measure. Whatever it raises switches this sampler off."""
        ...


@runtime_checkable
class Closing(Protocol):
    """A sampler that holds something outside the process."""

    def close(self) -> None:
        """Let go of it. Called once, in the samplers' thread, also after a failure."""
        ...


class Driver(Protocol):
    """The accelerators of one vendor on this node. Opened once in each process, polled in one process of the node."""

    name: str
    """Of the vendor's interface, in lower case: "nvml"."""
    uuids: Sequence[str]
    """Of every device (and every part of one) that the driver shows to this process, in the driver's order."""

    def own(self) -> Mapping[int, str]:
        """The devices of this process: UUID by index, as the job counts them. Asks the driver nothing."""
        ...

    def read(self) -> list[Device]:
        """Every device of `uuids` now; `index` is its place there. Raises what the driver says when it fails."""
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

        driver = open_nvml()
        if driver is None:
            return None
        from .node import NodeSampler

        return NodeSampler("gpu", driver)

    def allocator() -> Sampler:
        from .allocator import AllocatorSampler

        return AllocatorSampler()

    def compiler() -> Sampler:
        from .compiler import CompilerSampler

        return CompilerSampler()

    return {"host": host, "gpu": gpu, "allocator": allocator, "compiler": compiler}
