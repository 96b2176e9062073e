"""What an overview costs that nobody touches: CPU, bytes to the terminal, and the time to the first paint.

python -m tests.bench.idle_cpu [--seconds 20] [--steps 3000] [--keys 2]

Trains the demo in a child, opens it in a pseudo-terminal of 120×40 as `ntstop RUN`, and reports. The design's figures:
at most 5 % of a core, at most 20 kB/s, first paint within 0.6 s.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.viewer import Viewer


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
            cores, written = viewer.idle(seconds)
            viewer.close()
        finally:
            child.terminate()
            child.wait(20)
    return {
        "first_paint_s": round(min(paints), 3),
        "cpu_percent_of_a_core": round(100 * cores, 2),
        "kilobytes_per_second": round(written / 1000, 2),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--start", type=int, default=200, help="steps the run has made when it is opened")
    parser.add_argument("--keys", default="", help="pressed first, such as 2 for the second screen")
    options = parser.parse_args()
    print(json.dumps(measure(options.seconds, options.steps, options.start, options.keys)))
