"""What the probe adds to a training process: memory at its peak, and time to import and to begin.

    python -m tests.bench.footprint [--pairs N] [--steps N] [--json]

Processes come in turns, one without the probe and one of each kind with it, all with the MLP of `workloads`; what is
added is the median over the turns of the difference in peak resident memory (VmHWM). The import and `watch` are timed
inside, after torch: what they cost is the training thread's time. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.figures import error_of_median

KINDS = {"bare": "", "timing": "layers=False", "layers": "layers=True"}
"""What `watch` is told; "bare": it is not called."""
JOB = """
import json, sys, time
import torch
torch.set_num_threads(1)
torch.manual_seed(0)
from tests.bench.workloads import mlp
workload = mlp()
watched, steps = sys.argv[1], int(sys.argv[2])
began = time.perf_counter()
if watched:
    import ntstop_probe
    imported = time.perf_counter()
    eval(f"ntstop_probe.watch(workload.model, workload.optimizer, {watched})")
    ready = time.perf_counter()
else:
    imported = ready = began
for _ in range(steps):
    workload.step(next(workload.batches))
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"peak": peak / 1024, "import": (imported - began) * 1e3, "watch": (ready - imported) * 1e3}))
"""


def job(kind: str, steps: int, home: str) -> dict[str, float]:
    """One process: MiB and milliseconds."""
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    environment = {**os.environ, "NTSTOP_HOME": home, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    command = [sys.executable, "-c", JOB, KINDS[kind], str(steps)]
    done = subprocess.run(command, check=True, env=environment, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=7, help="turns (default 7)")
    parser.add_argument("--steps", type=int, default=3000, help="steps of each process (default 3000)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as home:
        for _ in range(options.pairs):
            for kind in KINDS:
                found[kind].append(job(kind, options.steps, home))
    table = {}
    for kind in KINDS:
        added = [one["peak"] - bare["peak"] for one, bare in zip(found[kind], found["bare"], strict=True)]
        table[kind] = {
            "peak": statistics.median(one["peak"] for one in found[kind]),
            "added": statistics.median(added),
            "added, error": error_of_median(added),
            "import": statistics.median(one["import"] for one in found[kind]),
            "watch": statistics.median(one["watch"] for one in found[kind]),
        }
    if options.json:
        print(json.dumps(table))
        return
    for kind, row in table.items():
        memory = f"peak {row['peak']:.0f} MiB, added {row['added']:+.1f} ± {row['added, error']:.1f} MiB"
        print(f"{kind:8} {memory}; import {row['import']:.1f} ms, watch {row['watch']:.1f} ms")


if __name__ == "__main__":
    main()
