"""CPU seconds from a recording of rows that a job logs to curves and findings: in blocks, and as one record a row.

    python -m tests.bench.logged_rows [--rows N] [--metrics N]

Both recordings are read in turns in one process, three times; the quickest of each counts.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ntstop.diagnosis.engine import Engine
from ntstop.run.state import RunState
from ntstop.sources.live import RunSource
from ntstop_probe.recording import Recording
from ntstop_probe.transmitter import Transmitter
from ntstop_probe.wire import PROTOCOL, STREAM_CORE, Hello, Record, Scalars, in_blocks

BATCH = 256
"""Rows of a drain of the probe's outbox."""
TURNS = 3


def write(folder: Path, rows: int, metrics: int, shape: Callable[[list[Scalars]], Sequence[Record]]) -> int:
    """A recording; returns its size in bytes."""
    folder.mkdir(parents=True)
    hello = Hello(PROTOCOL, "bench", folder.name, "host", "", "", 1, 0.0, 0, 0.0, 0.0)
    transmitter = Transmitter(1, lambda: hello)
    transmitter.recording = Recording(folder)
    random = np.random.default_rng(0)
    names = [f"metric/{index}" for index in range(metrics)]
    for first in range(0, rows, BATCH):
        values = random.normal(size=(BATCH, metrics)).tolist()
        logged = [
            Scalars(0.1 * (first + index), first + index, first + index, dict(zip(names, row, strict=True)))
            for index, row in enumerate(values)
        ]
        transmitter.send(STREAM_CORE, shape(logged))
    transmitter.recording.close()
    return sum(path.stat().st_size for path in folder.iterdir())


def read(folder: Path, rows: int) -> float:
    """CPU seconds until all curves are there."""
    begin = time.process_time()
    state, engine, source = RunState(), Engine(), RunSource(folder, live=False)
    while arrivals := source.poll(0.0):
        for writer, _, record in arrivals:
            state.apply(writer, record)
            engine.observe(writer, record)
    source.close()
    assert state.primary is not None
    assert state.primary.series["metric/0"].count >= rows
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--metrics", type=int, default=40)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        shapes: dict[str, Callable[[list[Scalars]], Sequence[Record]]] = {
            "rows": lambda rows: rows,
            "blocks": in_blocks,
        }
        folders = {name: Path(home) / name / "host-1-0" for name in shapes}
        for name, shape in shapes.items():
            size = write(folders[name], options.rows, options.metrics, shape)
            print(f"{name:7} {size / 1e6:7.1f} MB")
        took = {name: min(read(folder, options.rows) for _ in range(TURNS)) for name, folder in folders.items()}
        for name, seconds in took.items():
            print(f"{name:7} {seconds:7.2f} s of CPU")
        print(f"blocks load {took['rows'] / took['blocks']:.1f} times as fast")


if __name__ == "__main__":
    main()
