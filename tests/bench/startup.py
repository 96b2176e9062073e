"""How long the shell waits: `ntstop --help`, and the first paint of a run. `python -m tests.bench.startup RUN`.

Each stands beside what it cannot be faster than. Best and median of `--repeat` processes, in milliseconds. The first
paint is taken on a pseudo terminal of 120×40: from the start of the process until the id or title of the run is drawn.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import select
import statistics
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

from tests.bench.viewer import compile_packages

NTSTOP = str(Path(sys.executable).parent / "ntstop")
_PATIENCE = 20.0
"""Seconds after which a paint is given up."""


def seconds(command: list[str]) -> float:
    """Wall time of `command`, output thrown away."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def first_paint(command: list[str], text: bytes) -> float:
    """Seconds until `command` has drawn `text` on a terminal; then it is told to quit."""
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    start = time.perf_counter()
    job = subprocess.Popen(command, stdin=other, stdout=other, stderr=other, env=environment, start_new_session=True)
    os.close(other)
    drawn = b""
    try:
        while text not in drawn:
            if not select.select([main], [], [], _PATIENCE)[0]:
                raise SystemExit(f"{command}: {text!r} was not drawn in {_PATIENCE:.0f} s")
            drawn += os.read(main, 65536)
        return time.perf_counter() - start
    finally:
        job.kill()
        job.wait()
        os.close(main)


def report(name: str, times: list[float]) -> None:
    """One line of the table."""
    print(f"{name:<34} best {min(times) * 1e3:6.0f} ms   median {statistics.median(times) * 1e3:6.0f} ms")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", nargs="?", help="a run to paint; without it only --help is measured")
    parser.add_argument("--text", help="what the screen shows of the run; default: its id")
    parser.add_argument("--repeat", type=int, default=10)
    options = parser.parse_args()
    compile_packages()
    python = sys.executable
    report("python -c pass", [seconds([python, "-c", "pass"]) for _ in range(options.repeat)])
    report("import click", [seconds([python, "-c", "import click"]) for _ in range(options.repeat)])
    report("ntstop --help", [seconds([NTSTOP, "--help"]) for _ in range(options.repeat)])
    report("ntstop ls", [seconds([NTSTOP, "ls"]) for _ in range(options.repeat)])
    report(
        "import textual.app, numpy",
        [seconds([python, "-c", "import textual.app, numpy"]) for _ in range(options.repeat)],
    )
    if options.run:
        text = (options.text or options.run).encode()
        report("first paint", [first_paint([NTSTOP, options.run], text) for _ in range(options.repeat)])


if __name__ == "__main__":
    main()
