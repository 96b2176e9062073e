"""Does judging a step cost the same at the ten millionth as at the first? CPU time and memory by million.

    python -m tests.bench.judge_steps [--steps 10000000] [--rows 1024]

One process with a loss, a rate, a gradient norm and three phases, told to the diagnosis in blocks of `rows` steps; no
recording, no screen. Ten million steps take about ten seconds.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from ntstop.diagnosis.engine import Engine
from ntstop_probe.wire import PROTOCOL, Column, Hello, Steps

STEP_TIME = 0.001
NOISE = 1 << 16
"""Numbers of noise, used again and again."""
PHASES = ("data", "forward", "backward")


def f8(values: np.ndarray) -> Column:
    return Column("f8", values.astype("<f8").tobytes())


def f4(values: np.ndarray) -> Column:
    return Column("f4", values.astype("<f4").tobytes())


def block_of(first: int, rows: int, steps: int, noise: np.ndarray) -> Steps:
    """A slow descent with noise, a cosine rate, even steps."""
    index = np.arange(first, first + rows)
    at = first % (NOISE - rows)
    wobble = noise[:, at : at + rows]
    return Steps(
        rows,
        first,
        f8(index * STEP_TIME),
        duration=f4(STEP_TIME * (1 + 0.05 * wobble[0])),
        losses={"loss": f8(3.0 * np.exp(-4.0 * index / steps) + 0.5 + 0.02 * wobble[1])},
        lrs={"lr": f8(3e-4 * (0.55 + 0.45 * np.cos(np.pi * index / steps)))},
        phases={name: f4(0.25 * STEP_TIME * (1 + 0.05 * wobble[row])) for row, name in enumerate(PHASES)},
        grad_norm=f8(1 + 0.1 * wobble[2]),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000_000)
    parser.add_argument("--rows", type=int, default=1024)
    options = parser.parse_args()
    engine = Engine()
    engine.observe(1, Hello(PROTOCOL, "bench", "bench", "host", "", "", 1, 0.0, 0, 0.0, 0.0))
    noise = np.random.default_rng(0).normal(size=(len(PHASES), NOISE))
    spent, told = 0.0, 1
    for first in range(0, options.steps, options.rows):
        block = block_of(first, options.rows, options.steps, noise)
        begin = time.thread_time()
        engine.observe(1, block)
        spent += time.thread_time() - begin
        if first + options.rows >= told * options.steps / 10:
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            each = 1e7 * spent / options.steps
            print(f"{(first + options.rows) / 1e6:5.1f} million  {each:.2f} µs a step  {memory:.0f} MB", flush=True)
            spent, told = 0.0, told + 1


if __name__ == "__main__":
    main()
