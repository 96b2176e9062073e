"""How many batches the workers of a DataLoader have ready, read from another thread, without a lock.

Only attributes are looked at, and none is kept: where a torch has others, nothing is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class LoaderQueue(NamedTuple):
    """Batches that the job would get at once, and how many its workers make ahead at most."""

    ready: int
    most: int


def loader_queue(iterator: Mapping[str, Any]) -> LoaderQueue | None:
    """By the attributes of the iterator of a loader with workers; None of any other, and where it cannot be told.

    Raises nothing.
    """
    try:
        most = int(iterator["_prefetch_factor"]) * int(iterator["_num_workers"])
        if most <= 0:
            return None
        early = sum(len(task) > 1 for task in list(iterator["_task_info"].values()))
        made, handed = iterator["_worker_result_queue"], iterator["_data_queue"]
        # A thread that pins memory stands between the two queues; the one behind it is a plain queue of this process,
        # whose own `qsize` would take its lock.
        pinned = 0 if handed is made else len(handed.queue)
        return LoaderQueue(min(early + int(made.qsize()) + pinned, most), most)
    except Exception:
        # No workers; or macOS, whose queues have no length; or the iterator is being shut down.
        return None
