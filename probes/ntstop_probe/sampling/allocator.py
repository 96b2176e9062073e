"""The CUDA caching allocator, read without the 124-key dictionary of `torch.cuda.memory_stats()`."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ..wire import Allocator, Record


class AllocatorSampler:
    """Silent until the job itself has initialized CUDA; never the one to do so. Resets nothing."""

    name = "allocator"
    interval = 1.0

    def sample(self) -> Sequence[Record]:
        """An `Allocator` record for each device on which this process has reserved memory."""
        torch: Any = sys.modules.get("torch")
        cuda = getattr(torch, "cuda", None)
        read = getattr(getattr(torch, "_C", None), "_cuda_memoryStats", None)
        if read is None or cuda is None or not cuda.is_initialized():
            return []
        now = time.monotonic()
        records = [_record(now, index, read(index)) for index in range(cuda.device_count())]
        return [record for record in records if record.reserved]


def _record(now: float, index: int, stats: Mapping[str, Any]) -> Allocator:
    def current(name: str) -> int | None:
        value = stats.get(name, {}).get("all", {}).get("current")
        return None if value is None else int(value)

    return Allocator(
        t=now,
        index=index,
        allocated=current("allocated_bytes"),
        reserved=current("reserved_bytes"),
        active=current("active_bytes"),
        inactive_split=current("inactive_split_bytes"),
        retries=stats.get("num_alloc_retries"),
        ooms=stats.get("num_ooms"),
    )
