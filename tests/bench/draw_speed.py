"""How long one frame of a chart takes: 120 × 20 cells, three curves, with many points and already in buckets.

    python -m tests.bench.draw_speed

Reports the median and the 95th percentile of the CPU milliseconds of a frame. Setting the dots of
the same curves one by one in Python, without lines, axes or text, is measured beside it in the same run.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from ntstop.tui.raster.chart import plot
from ntstop.tui.raster.heat import HeatSpec, plot_heat
from ntstop.tui.raster.ink import line
from ntstop.tui.raster.spec import ChartSpec, Trace

WIDTH, HEIGHT, CURVES = 120, 20, 3


def chart(points: int) -> ChartSpec:
    """Three noisy falling curves of `points` raw points each."""
    noise = np.random.default_rng(0)
    x = np.arange(points, dtype=np.float64)
    traces = tuple(
        Trace(
            x,
            2 + 8 * np.exp(-x / points * 6) + noise.normal(0, 0.2, points) + index,
            label=f"r{index}",
            ink=line(index),
        )
        for index in range(CURVES)
    )
    return ChartSpec(traces=traces, width=WIDTH, height=HEIGHT)


def bucketed(buckets: int) -> ChartSpec:
    """The same curves as buckets with a band."""
    spec = chart(buckets)
    traces = tuple(
        Trace(trace.x, trace.y, trace.y - 0.5, trace.y + 0.5, label=trace.label, ink=trace.ink) for trace in spec.traces
    )
    return ChartSpec(traces=traces, width=WIDTH, height=HEIGHT)


def heat(layers: int, columns: int) -> HeatSpec:
    """A layer matrix of random ratios."""
    values = 10 ** np.random.default_rng(0).normal(-2.5, 0.7, (layers, columns))
    names = tuple(f"model.blocks.{index // 12}.part{index % 12}.weight" for index in range(layers))
    return HeatSpec(names=names, x=np.arange(columns, dtype=np.float64), values=values, width=WIDTH, height=HEIGHT)


def dot_by_dot(spec: ChartSpec) -> set[tuple[int, int]]:
    """The dots of the same curves, set one after the other in Python."""
    dots: set[tuple[int, int]] = set()
    for trace in spec.traces:
        low, high = float(trace.y.min()), float(trace.y.max())
        for x, y in zip(trace.x.tolist(), trace.y.tolist(), strict=True):
            dots.add((int(x / len(trace.x) * WIDTH * 2), int((y - low) / (high - low) * (HEIGHT * 4 - 1))))
    return dots


def measure(name: str, frame: Callable[[], object], repeats: int = 60) -> None:
    """Print the CPU milliseconds of a frame."""
    frame()
    times = []
    for _ in range(repeats):
        start = time.process_time_ns()
        frame()
        times.append((time.process_time_ns() - start) / 1e6)
    print(f"{name:<46} median {np.median(times):7.2f} ms   p95 {np.percentile(times, 95):7.2f} ms")


def main() -> None:
    """Measure everything in one run."""
    for points in (1_000, 100_000):
        spec = chart(points)
        measure(f"chart, 3 × {points:,} raw points", lambda spec=spec: plot(spec).rows)
    spec = bucketed(240)
    measure("chart, 3 × 240 buckets with bands", lambda: plot(spec).rows)
    for layers, columns in ((150, 120), (150, 2_048), (1_000, 2_048)):
        matrix = heat(layers, columns)
        measure(f"heat map, {layers:,} layers × {columns:,} buckets", lambda matrix=matrix: plot_heat(matrix).rows)
    for points in (1_000, 100_000):
        spec_points = chart(points)
        measure(f"alternative: dot by dot, 3 × {points:,}", lambda spec=spec_points: dot_by_dot(spec), repeats=5)


if __name__ == "__main__":
    main()
