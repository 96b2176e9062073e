"""The norms of the layer statistics beside the bare `torch._foreach_norm` on the same tensors.

    python -m tests.bench.norms_speed [--workload NAME] [--repeat N]

Both in turns, one thread. `norms` leaves out what cannot be measured, casts, and puts the results of a device into one
tensor; `and read` has the numbers as a list, too. Medians, in microseconds, and their ratio to the bare call.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch

from ntstop_probe.hooks.norms import norms
from ntstop_probe.hooks.readback import Readback
from tests.bench.workloads import WORKLOADS

REPEAT = {"mlp": 2000, "transformer": 500, "gpt2": 15}
"""Turns: as many as a second or two have."""


def measure(workload: str, repeat: int) -> dict[str, float]:
    """Median seconds of each way."""
    training = WORKLOADS[workload]()
    training.loss(next(training.batches)).backward()
    gradients = [parameter.grad for parameter in training.model.parameters() if parameter.grad is not None]
    readback = Readback()

    def bare() -> None:
        with torch.no_grad():
            torch._foreach_norm(gradients, 2, dtype=torch.float32)

    ways: dict[str, Callable[[], object]] = {
        "bare": bare,
        "norms": lambda: norms(gradients),
        "and read": lambda: [readback.read_block(block) for _, block in norms(gradients)],
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeat):
        for name, way in ways.items():
            started = time.perf_counter()
            way()
            times[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", action="append", choices=list(WORKLOADS))
    parser.add_argument("--repeat", type=int)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for workload in options.workload or WORKLOADS:
        found = measure(workload, options.repeat or REPEAT[workload])
        cells = [f"{name} {value * 1e6:9.1f} µs ({value / found['bare']:.2f})" for name, value in found.items()]
        print(f"{workload:12} " + "   ".join(cells))


if __name__ == "__main__":
    main()
