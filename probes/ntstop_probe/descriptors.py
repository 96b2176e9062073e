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
