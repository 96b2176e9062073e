"""How long the probe's other threads work at a stretch: what may hold the interpreter's lock against the training.

    python -m tests.bench.publisher_bursts [--seconds S] [--layers]

The MLP of `workloads` trains, and each stretch of work in the publisher's and the samplers' thread is timed by its CPU
time: a drained block, the work of each second, a measurement. The first `SETTLE` seconds, with their imports, are
left out. Milliseconds.
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

from tests.bench.figures import quantile

SETTLE = 3.0


def timed(work: Callable[..., Any], found: list[tuple[float, float]]) -> Callable[..., Any]:
    """`work`, which notes when it ended and what CPU time it took."""

    @functools.wraps(work)
    def around(*args: Any, **kwargs: Any) -> Any:
        began = time.thread_time()
        try:
            return work(*args, **kwargs)
        finally:
            found.append((time.monotonic(), time.thread_time() - began))

    return around


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="of training (default 20)")
    parser.add_argument("--layers", action="store_true", help="with layer statistics")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")

    import torch

    import ntstop_probe
    from ntstop_probe import publisher
    from ntstop_probe.sampling import rota
    from tests.bench.workloads import mlp

    found: dict[str, list[tuple[float, float]]] = {}

    def spy(owner: Any, name: str, shown: str) -> None:
        setattr(owner, name, timed(getattr(owner, name), found.setdefault(shown, [])))

    spy(publisher, "records_of", "a block of rows into records")
    spy(publisher.Transmitter, "send", "a frame encoded, recorded and sent")
    spy(publisher.Publisher, "_each_second", "the work of each second")
    spy(rota.Rota, "_guarded", "a measurement")
    with tempfile.TemporaryDirectory() as home:
        os.environ["NTSTOP_HOME"] = home
        torch.set_num_threads(1)
        training = mlp()
        ntstop_probe.watch(training.model, training.optimizer, layers=options.layers)
        began = time.monotonic()
        while time.monotonic() < began + SETTLE + options.seconds:
            training.step(next(training.batches))
        ntstop_probe.stop()
    for name, stretches in found.items():
        times = [took * 1e3 for ended, took in stretches if ended > began + SETTLE]
        if times:
            share = sum(times) / options.seconds / 10.0
            print(
                f"{name:36} {len(times):5} times, median {statistics.median(times):.3f}, p99 "
                f"{quantile(times, 0.99):.3f}, longest {max(times):.3f} ms; {share:.2f} % of a core"
            )


if __name__ == "__main__":
    main()
