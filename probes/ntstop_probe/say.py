"""The few lines that the probe prints. Straight to the descriptor: no lock that a fork could leave held."""

from __future__ import annotations

import contextlib
import os

from .descriptors import identity

_STDERR = 2
_stderr = identity(_STDERR)


def say(text: str) -> None:
    """One line on stderr, "ntstop: …". Never raises, and says nothing once stderr is something else than it was: a job
    that has closed it may have a file of its own in that place."""
    if _stderr is None or identity(_STDERR) != _stderr:
        return
    line = "ntstop: " + " ".join(text.split()) + "\n"
    with contextlib.suppress(OSError):
        os.write(_STDERR, line.encode("utf-8", "replace"))
