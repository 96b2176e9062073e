"""What it costs to add to the curves: a point, a block of steps, and a sample of 150 layers; and what a window costs.

    python -m tests.bench.append_cost

CPU time of one thread, for the first tenth and the last tenth of what is added: both are the same when the cost does
not grow with the run.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from ntstop.curves.matrix import LayerMatrix
from ntstop.curves.series import Series

POINTS = 1_000_000
BLOCK = 256
SAMPLES, LAYERS = 20_000, 150


def measure(name: str, unit: str, add: Callable[[int], None], count: int, per: int = 1) -> None:
    """Print the microseconds per `unit` of `count` calls, each of which adds `per` of them."""
    tenth = count // 10
    spent = []
    for part in range(10):
        begin = time.process_time()
        for index in range(part * tenth, (part + 1) * tenth):
            add(index)
        spent.append((time.process_time() - begin) / (tenth * per) * 1e6)
    print(f"{name:<34} {np.mean(spent):8.3f} µs a {unit}   first tenth {spent[0]:8.3f}   last tenth {spent[-1]:8.3f}")


def main() -> None:
    single, blocks, matrix = Series(), Series(), LayerMatrix(LAYERS)
    noise = np.random.default_rng(0).normal(size=BLOCK)
    norms = np.abs(np.random.default_rng(0).normal(size=LAYERS)).astype(np.float32)
    measure("one point after the other", "point", lambda i: single.append(float(i), 0.5, float(i)), POINTS)
    steps = np.arange(BLOCK, dtype=np.float64)

    def block(index: int) -> None:
        x = steps + index * BLOCK
        blocks.extend(x, noise, x)

    measure(f"blocks of {BLOCK} points", "point", block, POINTS // BLOCK, BLOCK)
    measure(f"samples of {LAYERS} layers", "sample", lambda i: matrix.append(float(i), norms), SAMPLES)
    for length in (10_000, 100_000, 1_000_000):
        series = Series()
        x = np.arange(length, dtype=np.float64)
        series.extend(x, np.resize(noise, length), x)
        measure(f"the whole of {length:,} points", "window", lambda _, s=series, n=length: s.window(0, n, 240), 200)


if __name__ == "__main__":
    main()
