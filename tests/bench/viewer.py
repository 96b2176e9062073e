"""A terminal program in a pseudo-terminal of our own: what it writes, when, and what it costs."""

from __future__ import annotations

import compileall
import contextlib
import fcntl
import functools
import os
import pty
import select
import struct
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

import ntstop
import ntstop_probe

SIZE = (40, 120)
"""Rows and columns."""
PAINTED = b"step time"
"""Words that only a drawn overview has."""
QUIET = 0.03
"""Seconds without a byte after which a paint is whole."""


@functools.cache
def compile_packages() -> None:
    """Compile both packages, as pip does at an installation: an editable one may have no bytecode, and Python may be
    told to write none."""
    for package in (ntstop, ntstop_probe):
        compileall.compile_dir(Path(str(package.__file__)).parent, quiet=1)


class Viewer:
    """`ntstop RUN` in a pseudo-terminal, or another `command`."""

    def __init__(self, run: str = "", command: Sequence[str] = (), size: tuple[int, int] = SIZE) -> None:
        compile_packages()
        words = list(command) or [str(Path(sys.executable).with_name("ntstop")), run]
        self.started = time.monotonic()
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
            os.execvp(words[0], words)

    def read(self, seconds: float) -> int:
        """Read what it writes for some seconds; returns how many bytes that were."""
        end, total = time.monotonic() + seconds, 0
        while (left := end - time.monotonic()) > 0:
            if select.select([self.master], [], [], left)[0]:
                total += len(os.read(self.master, 65536))
        return total

    def first_paint(self, limit: float = 30.0, painted: bytes = PAINTED) -> float:
        """Seconds from the start until the overview was drawn. Raises `TimeoutError` after `limit` seconds."""
        seen = b""
        while time.monotonic() < self.started + limit:
            if select.select([self.master], [], [], 0.1)[0]:
                seen += os.read(self.master, 65536)
                if painted in seen:
                    return time.monotonic() - self.started
        raise TimeoutError(f"nothing was painted in {limit} s: {seen[-400:]!r}")

    def idle(self, seconds: float) -> tuple[float, float]:
        """Cores that it takes, and bytes a second that it writes, while nobody touches it."""
        before, start = self.cpu_seconds, time.monotonic()
        size = self.read(seconds)
        took = time.monotonic() - start
        return (self.cpu_seconds - before) / took, size / took

    @property
    def cpu_seconds(self) -> float:
        """CPU time that it has taken."""
        return sum(psutil.Process(self.pid).cpu_times()[:2])

    def press(self, key: bytes, limit: float = 2.0) -> tuple[float, float] | None:
        """Press a key in a quiet moment: seconds to the first byte of what it paints, and to the last.

        None where nothing is painted in `limit` seconds.
        """
        while select.select([self.master], [], [], QUIET)[0]:
            os.read(self.master, 65536)
        begin = time.monotonic()
        os.write(self.master, key)
        if not select.select([self.master], [], [], limit)[0]:
            return None
        first = last = time.monotonic() - begin
        while select.select([self.master], [], [], QUIET)[0]:
            os.read(self.master, 65536)
            last = time.monotonic() - begin
        return first, last

    def close(self, key: bytes = b"q") -> None:
        """Quit with the key for it."""
        os.write(self.master, key)
        with contextlib.suppress(OSError):
            self.read(10.0)
        os.close(self.master)
        os.waitpid(self.pid, 0)
