"""What the probe adds to a step on the training thread: an MLP of 1–2 ms a step, publisher thread running.

    python tests/bench/probe_overhead.py [--layers] [--blocks N] [--steps N] [--json]

Blocks of steps with the hooks in place alternate with blocks without them, in one process, so that both meet the same
machine: short ones, because its load changes. `added` is the median over pairs of neighbouring blocks of (median step
armed - median step bare), with its standard error; `null` is the same for pairs of which neither has the hooks.
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
SETTLE = 5
WARM_UP = 300
"""Steps before the first block: caches, lazy imports, the search for the model's names, the first layer samples."""


def endless(batches: Any) -> Iterator[Any]:
    while True:
        yield from batches


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", action="store_true", help="with layer statistics, at the default budget")
    parser.add_argument("--blocks", type=int, default=120, help="pairs of blocks (default 120)")
    parser.add_argument("--steps", type=int, default=30, help="steps a block (default 30)")
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
    model = nn.Sequential(nn.Linear(256, 448), nn.ReLU(), nn.Linear(448, 448), nn.ReLU(), nn.Linear(448, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    dataset = [(torch.randn(64, 256), torch.randint(0, 10, (64,))) for _ in range(512)]
    batches = endless(DataLoader(dataset, batch_size=None))  # type: ignore[arg-type]
    clock = time.perf_counter

    def block(count: int) -> list[float]:
        times = []
        # The first steps after a change are not counted: they meet cold code.
        for index in range(count + SETTLE):
            started = clock()
            inputs, targets = next(batches)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
            if index >= SETTLE:
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
    null: list[float] = []
    own: list[float] = []
    for _ in range(blocks):
        cost = probe.progress.cost
        with_probe = block(steps)
        own.append((probe.progress.cost - cost) / (steps + SETTLE) * 1e6)
        hooks.disarm()
        without, again = block(steps), block(steps)
        hooks.arm()
        bare += without
        armed += with_probe
        added.append(statistics.median(with_probe) - statistics.median(without))
        null.append(statistics.median(again) - statistics.median(without))
    dropped = probe.outbox.dropped
    ntstop_probe.stop()
    return {
        "step, bare": statistics.median(bare),
        "step, armed": statistics.median(armed),
        "added a step": statistics.median(added),
        "added, standard error": standard_error(added),
        "null": statistics.median(null),
        "in the hooks themselves": statistics.median(own),
        "added, percent": 100 * statistics.median(added) / statistics.median(bare),
        "p99.5, bare": quantile(bare, 0.995),
        "p99.5, armed": quantile(armed, 0.995),
        "steps between looks at the layers": float(probe.progress.layer_interval or 0),
        "rows dropped": float(dropped),
    }


def standard_error(values: list[float]) -> float:
    """Of the median, from the spread of the middle half."""
    low, _, high = statistics.quantiles(values, n=4)
    return 1.253 * (high - low) / 1.349 / len(values) ** 0.5


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[int(len(values) * share)]


if __name__ == "__main__":
    main()
