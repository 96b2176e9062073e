"""What an overview costs that nobody touches: CPU, bytes to the terminal, and the time to the first paint.

python -m tests.bench.idle_cpu [--seconds 20] [--steps 3000] [--keys 2]

Trains the demo in a child, opens it in a pseudo-terminal of 120×40 as `ntstop RUN`, and reports. The design's figures:
at most 5 % of a core, at most 20 kB/s, first paint within 0.6 s.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

import psutil

SIZE = (40, 120)
"""Rows and columns."""
PAINTED = b"step time"
"""Words that only a drawn overview has."""


class Viewer:
    """`ntstop RUN` in a pseudo-terminal of our own."""

    def __init__(self, run: str) -> None:
        self.started = time.monotonic()
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
            ntstop = str(Path(sys.executable).with_name("ntstop"))
            os.execv(ntstop, [ntstop, run])
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))

    def read(self, seconds: float) -> int:
        """Read what it writes for some seconds; returns how many bytes that were."""
        end, total = time.monotonic() + seconds, 0
        while (left := end - time.monotonic()) > 0:
            if select.select([self.master], [], [], left)[0]:
                total += len(os.read(self.master, 65536))
        return total

    def first_paint(self, limit: float = 30.0) -> float:
        """Seconds from the start until the overview was drawn. Raises `TimeoutError` after `limit` seconds."""
        seen = b""
        while time.monotonic() < self.started + limit:
            if select.select([self.master], [], [], 0.1)[0]:
                seen += os.read(self.master, 65536)
                if PAINTED in seen:
                    return time.monotonic() - self.started
        raise TimeoutError(f"nothing was painted in {limit} s: {seen[-400:]!r}")

    def close(self) -> None:
        """Quit with the key for it."""
        os.write(self.master, b"q")
        with contextlib.suppress(OSError):
            self.read(10.0)
        os.close(self.master)
        os.waitpid(self.pid, 0)


def train(steps: int, folder: Path) -> subprocess.Popen[bytes]:
    """The demo's training, as anyone would run it."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "NTSTOP_RUN_ID": "bench"}
    command = [sys.executable, "-m", "ntstop.demo.train", "--steps", str(steps)]
    return subprocess.Popen(command, env=environment, cwd=folder, stdout=subprocess.DEVNULL)


def wait_for_steps(run: Path, steps: int, limit: float = 90.0) -> None:
    """Until the run has made this many steps. Raises `TimeoutError`."""
    from ntstop.sources.base import SourceError
    from ntstop.sources.runs import read_run

    end = time.monotonic() + limit
    while time.monotonic() < end:
        try:
            if (read_run(run).last_step or 0) >= steps:
                return
        except SourceError:
            pass
        time.sleep(0.5)
    raise TimeoutError(f"{run.name} did not make {steps} steps in {limit} s")


def measure(seconds: float, steps: int, start_at: int, keys: str = "") -> dict[str, float]:
    """Train, open, wait, count."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["NTSTOP_HOME"] = folder
        child = train(steps, Path(folder))
        try:
            wait_for_steps(Path(folder) / "runs" / "bench", start_at)
            paints = []
            for _ in range(3):
                viewer = Viewer("bench")
                paints.append(viewer.first_paint())
                viewer.read(1.0)
                viewer.close()
            viewer = Viewer("bench")
            viewer.first_paint()
            os.write(viewer.master, keys.encode())
            viewer.read(4.0)
            process = psutil.Process(viewer.pid)
            before, start = sum(process.cpu_times()[:2]), time.monotonic()
            size = viewer.read(seconds)
            took, cpu = time.monotonic() - start, sum(process.cpu_times()[:2]) - before
            viewer.close()
        finally:
            child.terminate()
            child.wait(20)
    return {
        "first_paint_s": round(min(paints), 3),
        "cpu_percent_of_a_core": round(100 * cpu / took, 2),
        "kilobytes_per_second": round(size / took / 1000, 2),
        "seconds": round(took, 1),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--start", type=int, default=200, help="steps the run has made when it is opened")
    parser.add_argument("--keys", default="", help="pressed first, such as 2 for the second screen")
    options = parser.parse_args()
    print(json.dumps(measure(options.seconds, options.steps, options.start, options.keys)))
