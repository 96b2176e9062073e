"""A live run that costs its machine little: the records of a training, sent at the pace of one.

    NTSTOP_HOME=FOLDER python -m tests.bench.play RUN [--layers N] [--rate STEPS] [--before STEPS]

Records `--before` steps at once, then goes on at `--rate` steps a second, a sample of all layers four times a second,
until its input ends. Prints "ready" when it has begun.
"""

from __future__ import annotations

import argparse
import select
import sys
import time

import numpy as np

from ntstop_probe.wire import Column, Heartbeat, Host, Layers, ProbeStatus, Schema, Steps
from tests.monitor.writer import EPOCH, Writer

TICK = 0.25
PARTS = ("attention.norm", "attention.in", "attention.out", "mlp.norm", "mlp.in", "mlp.out")
SHARES = {"data": 0.1, "forward": 0.25, "backward": 0.5, "optimizer": 0.1, "other": 0.05}


def f4(values: np.ndarray) -> Column:
    return Column("f4", values.astype("<f4").tobytes())


def f8(values: np.ndarray) -> Column:
    return Column("f8", values.astype("<f8").tobytes())


def steps_of(first: int, count: int, seconds: float, random: np.random.Generator) -> Steps:
    """A falling loss with its noise, and steps of about `seconds`."""
    index = np.arange(first, first + count)
    took = seconds * (1 + 0.05 * random.random(count))
    return Steps(
        count=count, ordinal=first, t=f8(EPOCH + (index + 1) * seconds), duration=f4(took),
        losses={"loss": f8(1.5 + 3 * np.exp(-index / 2000) + 0.08 * random.normal(size=count))},
        lrs={"lr": f8(np.full(count, 3e-4))},
        phases={name: f4(share * took) for name, share in SHARES.items()},
        grad_norm=f8(1 + random.random(count)),
    )  # fmt: skip


def layers_of(ordinal: int, seconds: float, count: int, random: np.random.Generator) -> Layers:
    """Gradients a decade around their usual height."""
    grads = 3e-2 * 10 ** random.normal(0, 0.3, count)
    norms = 1.0 + 1e-4 * ordinal * random.random(count)
    columns = {"grad_norm": f4(grads), "param_norm": f4(norms), "grad_zero": f4(np.zeros(count))}
    return Layers(1, ordinal, None, EPOCH + ordinal * seconds, columns, 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("--layers", type=int, default=150)
    parser.add_argument("--rate", type=float, default=10.0)
    parser.add_argument("--before", type=int, default=2000)
    options = parser.parse_args()
    random, seconds, count = np.random.default_rng(0), 1.0 / options.rate, options.layers
    writer = Writer(options.run, live=True)
    names = [f"blocks.{index // len(PARTS)}.{PARTS[index % len(PARTS)]}.weight" for index in range(count)]
    writer.send_layers(Schema(1, names, numel=[1000] * count))
    for first in range(0, options.before, 50):
        writer.send_layers(layers_of(first, seconds, count, random))
        writer.send(steps_of(first, 50, seconds, random))
    print("ready", flush=True)
    done, ticks, begin = options.before, 0, time.monotonic()
    while not select.select([sys.stdin], [], [], max(begin + ticks * TICK - time.monotonic(), 0.0))[0]:
        ticks += 1
        writer.pump()
        due = options.before + int(ticks * TICK * options.rate)
        writer.send_layers(layers_of(due, seconds, count, random))
        writer.send(steps_of(done, due - done, seconds, random))
        done, t = due, EPOCH + due * seconds
        if ticks % 4 == 0:
            probe = ProbeStatus(cost=2e-5, share=0.003, layer_interval=10)
            writer.send(Host(t, 0.98, 6 << 30, 7.5, 16, 40 << 30, 128 << 30))
            writer.send(Heartbeat(t, time.time(), "forward", 0.05, due, probe))


if __name__ == "__main__":
    main()
