"""The few lines that the probe prints. Straight to the descriptor: no lock that a fork could leave held."""

from __future__ import annotations

import contextlib
import os


def say(text: str) -> None:
    """One line on stderr, "ntstop: …". Never raises."""
    line = "ntstop: " + " ".join(text.split()) + "\n"
    with contextlib.suppress(OSError):
        os.write(2, line.encode("utf-8", "replace"))
