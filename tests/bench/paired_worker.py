"""A training process of `compare`: it does blocks of steps when it is told to, and says how long each took.

It is told through the socket BENCH_SOCKET names: one JSON list ["on"|"off", steps to settle, steps] a line. It
answers with {"times": seconds of each step, "own": what the watcher says it spent in each}, at the end of the input
it ends. First it says {"name": …}.
"""

from __future__ import annotations

import json
import os
import socket
import time
from typing import Any

import torch

from tests.bench.watchers import WATCHERS, Watcher
from tests.bench.workloads import WORKLOADS


def block(watcher: Watcher, on: bool, settle: int, steps: int) -> dict[str, Any]:
    """Steps with the watcher on or off. The first `settle` are not counted: they meet cold caches."""
    workload, clock = watcher.workload, time.perf_counter
    times, own = [], []
    around = watcher.around if on else Watcher.around.__get__(watcher)
    stepped = watcher.stepped if on else Watcher.stepped.__get__(watcher)
    for index in range(settle + steps):
        spent = watcher.own_seconds()
        started = clock()
        batch = next(workload.batches)
        with around():
            loss = workload.step(batch)
        stepped(loss)
        took = clock() - started
        if index >= settle:
            times.append(took)
            own.append(None if spent is None else (watcher.own_seconds() or 0.0) - spent)
    return {"times": times, "own": own, "interval": watcher.interval()}


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    name = os.environ["BENCH_WATCHER"]
    watcher = WATCHERS[name](WORKLOADS[os.environ["BENCH_WORKLOAD"]]())
    is_on = True
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ["BENCH_SOCKET"])
        stream = connection.makefile("rw", encoding="utf-8")
        print(json.dumps({"name": name}), file=stream, flush=True)
        for line in stream:
            state, settle, steps = json.loads(line)
            if (state == "on") != is_on:
                is_on = not is_on
                (watcher.on if is_on else watcher.off)()
            print(json.dumps(block(watcher, is_on, settle, steps)), file=stream, flush=True)


if __name__ == "__main__":
    main()
