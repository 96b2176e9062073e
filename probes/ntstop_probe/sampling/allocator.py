"""The CUDA caching allocator, read without the 124-key dictionary of `torch.cuda.memory_stats()`."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..wire import Allocator, Record

LOOK_SECONDS = 10.0
"""Between two looks at the blocks themselves."""
MAX_BLOCKS = 256
"""That are looked at. Python objects for each are made under the interpreter's lock, which the training wants too."""


class AllocatorSampler:
    """Silent until the job itself has initialized CUDA; never the one to do so. Resets nothing."""

    name = "allocator"
    interval = 1.0

    def __init__(self) -> None:
        self._look_at = 0.0

    def sample(self) -> Sequence[Record]:
        """An `Allocator` record for each device on which this process has reserved memory."""
        torch: Any = sys.modules.get("torch")
        cuda = getattr(torch, "cuda", None)
        read = getattr(getattr(torch, "_C", None), "_cuda_memoryStats", None)
        if read is None or cuda is None or not cuda.is_initialized():
            return []
        now = time.monotonic()
        records, blocks = [], 0
        for index in range(cuda.device_count()):
            stats = read(index)
            record = _record(now, index, stats)
            if record.reserved:
                records.append(record)
                blocks += sum(_current(stats, name) or 0 for name in ("active", "inactive_split", "segment"))
        if records and blocks <= MAX_BLOCKS and now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            largest = _largest_free(cuda)
            records = [msgspec.structs.replace(record, largest_free=largest.get(record.index)) for record in records]
        return records


def _record(now: float, index: int, stats: Mapping[str, Any]) -> Allocator:
    return Allocator(
        t=now,
        index=index,
        allocated=_current(stats, "allocated_bytes"),
        reserved=_current(stats, "reserved_bytes"),
        active=_current(stats, "active_bytes"),
        inactive_split=_current(stats, "inactive_split_bytes"),
        retries=stats.get("num_alloc_retries"),
        ooms=stats.get("num_ooms"),
    )


def _current(stats: Mapping[str, Any], name: str) -> int | None:
    value = stats.get(name, {}).get("all", {}).get("current")
    return None if value is None else int(value)


def _largest_free(cuda: Any) -> dict[int, int]:
    """Bytes of the largest free block of each device; nothing where torch gives no snapshot without its traces."""
    try:
        segments = cuda.memory_snapshot(include_traces=False)
    except (TypeError, AttributeError):
        return {}
    largest: dict[int, int] = {}
    for segment in segments:
        device = int(segment["device"])
        for block in segment["blocks"]:
            if block["state"] == "inactive":
                largest[device] = max(largest.get(device, 0), int(block["size"]))
            else:
                largest.setdefault(device, 0)
    return largest
