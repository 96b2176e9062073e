"""What is said of a loader that is too slow: the cause and the fix, by its workers and the cores they use."""

from __future__ import annotations

from typing import Final

from ntstop_probe import wire

from .evidence import seconds
from .finding import Basis

SLOWER: Final = 3.0
"""Times as long that a batch must take to load before it is said: a busy host makes all phases longer."""


def worker_text(workers: int | None) -> str:
    """How many workers the loader has."""
    if workers is None:
        return "number of loader workers: not known"
    return f"the loader has {workers} worker{'' if workers == 1 else 's'}"


def worker_basis(workers: int | None) -> Basis:
    """Whether that is known."""
    return "unchecked" if workers is None else "measured"


def _working(workers: int, host: wire.Host | None) -> bool | None:
    """Whether what loads the data computes (True) or waits (False); None: not known."""
    if host is None:
        return None
    used = host.children_cpu if workers else host.process_cpu
    return None if used is None else used >= 0.6 * max(1, workers)


def input_cause(workers: int | None, host: wire.Host | None) -> str:
    """Why the loader is slow, from its workers and what they use of the cores."""
    working = None if workers is None else _working(workers, host)
    if workers == 0:
        return "Batches are loaded in the training process itself (num_workers=0), so nothing overlaps with the step."
    if working:
        return "The workers compute all the time and are too slow: decoding and augmenting cost more than the step."
    if working is False:
        return "The workers mostly wait themselves: for the disk, the network, a lock, or the queue."
    return "Loading a batch takes longer than the rest of the step."


def slower_loading(workers: int | None, before: float | None, since: float, step: int) -> str:
    """What to say where loading a batch became slower at `step`; "" where it did not, or workers hide it.

    `before` and `since` are seconds a batch that the training waits for; without workers that is the loading itself.
    """
    if workers != 0 or not before or since < SLOWER * before:
        return ""
    return (
        f" Loading a batch itself took {seconds(before)} before step {step:,} and takes {seconds(since)} since: look "
        "at what comes there first (larger or broken samples, another file or mount, a transform that begins)."
    )


def input_fix(workers: int | None, host: wire.Host | None) -> str:
    """The smallest change that the workers and cores leave room for."""
    cores = host.cores if host is not None else None
    room = f" (this process may use {cores} cores)" if cores is not None else ""
    if workers == 0:
        number = max(1, min(4, (cores or 5) - 1))
        return (
            f"DataLoader(..., num_workers={number}, persistent_workers=True, pin_memory=True){room}; data that fits "
            "into memory is quicker indexed as one tensor."
        )
    working = None if workers is None else _working(workers, host)
    if workers and working:
        more = cores is None or cores > workers + 1
        first = f"num_workers={2 * workers}{room}" if more else f"There is no core left for more workers{room}"
        return f"{first}; decode less in them: smaller or cached files, augmentation on the GPU."
    return (
        "Look at the disk or mount: copy the data to the local disk, read larger files (shards), raise prefetch_factor"
        f" to 4; persistent_workers=True if it waits at each epoch's start{room}."
    )


CROWD_CAUSE: Final = "Other processes on the host hold its cores: what loads the data gets too few of them."
CROWD_FIX: Final = "Ask for cores of its own, or end what else runs there; the loader itself may be quick enough."
