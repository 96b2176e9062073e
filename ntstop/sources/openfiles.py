"""How many more files and sockets may be opened: a run of a thousand ranks needs more than the usual 1,024."""

from __future__ import annotations

import os
import resource

_SPARE = 64
"""Descriptors left to everything else: segments being read, the terminal, a screenshot."""


def room_for(wanted: int) -> int:
    """How many of `wanted` more descriptors there is room for; raises the soft limit where it must and may be."""
    try:
        used = len(os.listdir("/proc/self/fd"))
    except OSError:
        used = _SPARE
    needed = used + _SPARE + wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
            soft = raised
        except (OSError, ValueError):
            pass
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(0, min(wanted, soft - used - _SPARE))
