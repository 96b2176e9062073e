"""What the hooks add to a step on the training thread, to within a microsecond: no publisher, no layers, no budget.

    python -m tests.bench.hook_floor [--every K] [--cold BYTES] [--blocks N] [--steps N] [--json]

Phases are timed in one of K steps (default 64: the least that the hooks do). The training is as small as it can be,
and before each half of a step BYTES of memory are gone through, as a model would: with cold caches the same code takes
longer. Blocks of steps with the hooks and without alternate. `added` is the median over neighbouring blocks of the
difference of their medians; `own` is what the hooks say of themselves.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Iterator
from typing import Any

from tests.bench.figures import error_of_median

os.environ.setdefault("OMP_NUM_THREADS", "1")
SETTLE = 5
WARM_UP = 300


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=64, help="a power of two")
    parser.add_argument(
        "--cold", type=int, default=2_000_000, help="bytes, of which the L2 cache holds about a million"
    )
    parser.add_argument("--blocks", type=int, default=300, help="pairs of blocks")
    parser.add_argument("--steps", type=int, default=40, help="steps a block")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    options = parser.parse_args()
    found = measure(options.every, options.cold, options.blocks, options.steps)
    if options.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:24} {value:8.2f} µs")


def measure(every: int, cold: int, blocks: int, steps: int) -> dict[str, float]:
    """Microseconds."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader

    from ntstop_probe.hooks.floor import typical
    from ntstop_probe.hooks.install import HookSettings, arm
    from ntstop_probe.outbox import Outbox
    from ntstop_probe.progress import Progress

    torch.set_num_threads(1)
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = _endless(DataLoader([torch.randn(4, 8)] * 4096, batch_size=None))  # type: ignore[arg-type]
    swept = torch.zeros(max(1, cold // 4))
    clock = time.perf_counter

    def block(count: int) -> list[float]:
        times = []
        for index in range(count + SETTLE):
            swept.add_(1.0)
            started = clock()
            batch = next(batches)
            optimizer.zero_grad()
            loss = model(batch).sum()
            fetched = clock()
            swept.add_(1.0)
            resumed = clock()
            loss.backward()
            optimizer.step()
            if index >= SETTLE:
                times.append((clock() - resumed + fetched - started) * 1e6)
        return times

    outbox, progress = Outbox(), Progress()
    hooks = arm(outbox, progress, HookSettings(budget=1.0, layers=False))
    inner = hooks._hooks
    inner.budget.next_review = 1 << 62
    block(WARM_UP)
    inner.machine.timing_mask = every - 1
    inner.machine.details_mask = max(16, every) - 1 if every > 1 else 0
    block(WARM_UP)
    inner.machine.light_cost = typical(inner.machine.light_costs)
    added, off, own = [], [], []
    for turn in range(blocks):
        cost = progress.cost
        if turn % 2:
            armed = block(steps)
            own.append((progress.cost - cost) / (steps + SETTLE) * 1e6)
            hooks.disarm()
            bare = block(steps)
        else:
            hooks.disarm()
            bare = block(steps)
            hooks.arm()
            armed = block(steps)
            own.append((progress.cost - cost) / (steps + SETTLE) * 1e6)
        if turn % 2:
            hooks.arm()
        outbox.drain(1_000_000)
        off.append(statistics.median(bare))
        added.append(statistics.median(armed) - off[-1])
    hooks.disarm()
    return {
        "step without": statistics.median(off),
        "added": statistics.median(added),
        "added, standard error": error_of_median(added),
        "own": statistics.median(own),
    }


def _endless(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


if __name__ == "__main__":
    main()
