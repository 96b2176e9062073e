"""What the probe adds to a step on the training thread: an MLP of 1–2 ms a step, publisher thread running.

    python tests/bench/probe_overhead.py [--layers] [--blocks N] [--steps N] [--json]

Blocks of steps with the hooks in place alternate with blocks without them, in one process, so that both meet the same
machine. `added` is the median over pairs of neighbouring blocks of (median step armed - median step bare).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
WARM_UP = 300
"""Steps before the first block: caches, lazy imports, the search for the model's names, the first layer samples."""


def endless(batches: Any) -> Iterator[Any]:
    while True:
        yield from batches


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", action="store_true", help="with layer statistics, at the default budget")
    parser.add_argument("--blocks", type=int, default=20, help="pairs of blocks (default 20)")
    parser.add_argument("--steps", type=int, default=250, help="steps a block (default 250)")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        os.environ["NTSTOP_HOME"] = home
        found = measure(options.layers, options.blocks, options.steps)
    if options.json:
        print(json.dumps(found))
        return
    print("with layers, budget 1 %" if options.layers else "timing and loss only", file=sys.stdout)
    for name, value in found.items():
        print(f"  {name:32} {value:10.1f}")


def measure(layers: bool, blocks: int, steps: int) -> dict[str, float]:
    """All in microseconds, but for shares in percent and counts."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader

    import ntstop_probe
    from ntstop_probe import core

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 640), nn.ReLU(), nn.Linear(640, 640), nn.ReLU(), nn.Linear(640, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    dataset = [(torch.randn(64, 256), torch.randint(0, 10, (64,))) for _ in range(512)]
    batches = endless(DataLoader(dataset, batch_size=None))  # type: ignore[arg-type]
    clock = time.perf_counter

    def block(count: int) -> list[float]:
        times = []
        for _ in range(count):
            started = clock()
            inputs, targets = next(batches)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
            times.append((clock() - started) * 1e6)
        return times

    ntstop_probe.watch(model, optimizer, layers=layers)
    probe = core.current()
    assert probe is not None
    hooks = probe.hooks
    assert hooks is not None
    block(WARM_UP)
    bare: list[float] = []
    armed: list[float] = []
    added: list[float] = []
    cost = 0.0
    for index in range(blocks):
        halves: dict[bool, list[float]] = {}
        for with_probe in (True, False) if index % 2 else (False, True):
            if not with_probe:
                hooks.disarm()
            before = probe.progress.cost
            # The first steps after a change are not counted: they meet cold code.
            halves[with_probe] = block(steps + 10)[10:]
            if with_probe:
                cost += probe.progress.cost - before
            else:
                hooks.arm()
        bare += halves[False]
        armed += halves[True]
        added.append(statistics.median(halves[True]) - statistics.median(halves[False]))
    dropped = probe.outbox.dropped
    ntstop_probe.stop()
    return {
        "step, bare": statistics.median(bare),
        "step, armed": statistics.median(armed),
        "added a step": statistics.median(added),
        "added, as the probe measures it": cost / (blocks * (steps + 10)) * 1e6,
        "added, mean of all steps": statistics.fmean(armed) - statistics.fmean(bare),
        "added, percent": 100 * statistics.median(added) / statistics.median(bare),
        "p99.5, bare": quantile(bare, 0.995),
        "p99.5, armed": quantile(armed, 0.995),
        "rows dropped": float(dropped),
    }


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[int(len(values) * share)]


if __name__ == "__main__":
    main()
