"""Whether a descriptor is still what we opened: jobs close some they do not own, and use the numbers."""

from __future__ import annotations

import os

Identity = tuple[int, int]


def identity(descriptor: int) -> Identity | None:
    """What a descriptor refers to, as (device, inode); None when it is closed."""
    try:
        state = os.fstat(descriptor)
    except OSError:
        return None
    return state.st_dev, state.st_ino


def descriptors_left() -> int | None:
    """How many more the process may open; None where the system does not say, or sets no limit."""
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        used = len(os.listdir("/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"))
    except (ImportError, OSError):
        return None
    return None if limit == resource.RLIM_INFINITY else limit - used
