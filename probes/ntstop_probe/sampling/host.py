"""The process and its host: CPU and memory through psutil, children without a walk over all of /proc."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from ..wire import Host, Record

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PRIVATE_REST = 100.0
"""Reading the private bytes of the children may take one part in so many of a core."""


class HostSampler:
    """CPU figures are means since the sample before, so the first sample has none."""

    name = "host"
    interval = 1.0

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._busy: dict[str, float] = {}
        self._at: float | None = None
        self._private_at = 0.0

    def sample(self) -> Sequence[Record]:
        """One `Host` record."""
        now = time.monotonic()
        with self._process.oneshot():
            own = self._process.cpu_times()
            resident = self._process.memory_info().rss
        whole = psutil.cpu_times()
        memory = psutil.virtual_memory()
        # `guest` is part of `user` on Linux; waiting for a disk is not work.
        idle = whole.idle + getattr(whole, "iowait", 0.0)
        busy = sum(whole) - idle - getattr(whole, "guest", 0.0) - getattr(whole, "guest_nice", 0.0)
        children = _children()
        shared_used, shared_total = _shared()
        elapsed = None if self._at is None else now - self._at
        self._at = now
        return [
            Host(
                t=now,
                process_cpu=self._rate("process", own.user + own.system, elapsed),
                process_rss=resident,
                host_cpu=self._rate("host", busy, elapsed),
                cores=usable_cores(),
                memory_used=memory.total - memory.available,
                memory_total=memory.total,
                children_cpu=None if children is None else self._children_rate(children, elapsed),
                children_rss=None if children is None else sum(rss for _, rss in children.values()),
                children=None if children is None else len(children),
                children_private=self._private(now, children) if children else None,
                shared_used=shared_used,
                shared_total=shared_total,
            )
        ]

    def _rate(self, name: str, busy: float, elapsed: float | None) -> float | None:
        before = self._busy.get(name)
        self._busy[name] = busy
        if before is None or not elapsed:
            return None
        return max(0.0, (busy - before) / elapsed)

    def _private(self, now: float, children: dict[str, tuple[float, int]]) -> int | None:
        """The kernel walks all pages of a process for this, without the GIL: some milliseconds for a gigabyte."""
        if now < self._private_at:
            return None
        begin = time.thread_time()
        try:
            return sum(_private_bytes(pid) for pid in children)
        except OSError:
            return None
        finally:
            self._private_at = now + _PRIVATE_REST * (time.thread_time() - begin)

    def _children_rate(self, children: dict[str, tuple[float, int]], elapsed: float | None) -> float | None:
        """Over the children that were there last time too: one that has just come brings its whole past with it."""
        rates = [self._rate(name, busy, elapsed) for name, (busy, _) in children.items()]
        for gone in [name for name in self._busy if name.isdigit() and name not in children]:
            del self._busy[gone]
        return None if elapsed is None else sum(rate for rate in rates if rate is not None)


def _private_bytes(pid: str) -> int:
    """Resident bytes of a process that no other one has. Raises `OSError` when it is gone, or hidden."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_bytes()
    return sum(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith(b"Private_"))


def _shared() -> tuple[int | None, int | None]:
    """Bytes used of /dev/shm, and how many there are."""
    try:
        found = os.statvfs("/dev/shm")
    except OSError:
        return None, None
    return (found.f_blocks - found.f_bfree) * found.f_frsize, found.f_blocks * found.f_frsize


def usable_cores() -> int | None:
    """Cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _children() -> dict[str, tuple[float, int]] | None:
    """CPU seconds and resident bytes of the main thread's child processes by pid; None where Linux does not list them.

    psutil would read the stat of every process on the node to find them, 10 ms and more of the GIL on a busy one.
    """
    main = threading.main_thread().native_id
    try:
        pids = Path(f"/proc/self/task/{main}/children").read_text().split()
    except OSError:
        return None
    found: dict[str, tuple[float, int]] = {}
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        if fields[0] != b"Z":
            found[pid] = (int(fields[11]) + int(fields[12])) / _TICKS, int(fields[21]) * _PAGE
    return found
