"""Time and memory from a recording of 1,000,000 steps × 40 curves to the first full curve.

    python -m tests.bench.load_recording [--steps N] [--layers N] [--step-time SECONDS]

Writes the recording once, as the probe does (a block each quarter of a second, 256 steps at most; each second a
heartbeat and the host), then reads it in a fresh process: the imports, the whole recording into the state of the run,
and the whole loss curve for a screen 120 columns wide. The diagnosis is measured beside it. The CPU time is that of the
whole process, which is what a quiet machine takes. The layers, two norms of each, are sampled every 256 steps.
"""

from __future__ import annotations

import argparse
import os
import resource
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from ntstop_probe import registry
from ntstop_probe.recording import Recording
from ntstop_probe.registry import ProcessInfo
from ntstop_probe.transmitter import Transmitter
from ntstop_probe.wire import (
    PROTOCOL,
    STREAM_CORE,
    STREAM_LAYERS,
    Column,
    Heartbeat,
    Hello,
    Host,
    Layers,
    Schema,
    Steps,
)

MOST = 256
STEP_TIME = 0.001
"""Seconds of a step, unless others are asked for."""
TICK = 0.25
"""Seconds between two blocks."""
EVERY = 256
"""Steps between two looks at the layers."""
PHASES = ("data", "forward", "backward", "optimizer", "other")
LOSSES = 27
"""Beside the loss, so that a block has 40 curves."""


def f4(values: np.ndarray) -> Column:
    return Column("f4", values.astype("<f4").tobytes())


def f8(values: np.ndarray) -> Column:
    return Column("f8", values.astype("<f8").tobytes())


def write(folder: Path, steps: int, layers: int, step_time: float) -> int:
    """The recording; returns its size in bytes."""
    writer = secrets.randbits(63)
    hello = Hello(PROTOCOL, "bench", folder.name, "host", "", "", 1, 0.0, 0, 0.0, 0.0)
    transmitter = Transmitter(writer, lambda: hello)
    transmitter.recording = Recording(folder)
    info = ProcessInfo(
        protocol=PROTOCOL, run="bench", folder=folder.name, writer=writer, host="host", boot="", pid_namespace="",
        pid=1, started=0.0, wall=time.time(),
    )  # fmt: skip
    registry.write_process_info(folder, info)
    random = np.random.default_rng(0)
    if layers:
        transmitter.send(STREAM_LAYERS, [Schema(1, [f"layer.{index}" for index in range(layers)])])
    rows = max(1, min(MOST, round(TICK / step_time)))
    beat, look = 1.0, 0
    for first in range(0, steps, rows):
        index = np.arange(first, min(first + rows, steps))
        noise = random.normal(size=(12 + LOSSES, len(index)))
        curve = 3.0 * np.exp(-index / steps) + 0.05 * noise
        if layers and first >= look:
            look += EVERY
            norms = np.abs(random.normal(size=(2, layers)))
            columns = {"grad_norm": f4(norms[0]), "param_norm": f4(norms[1])}
            transmitter.send(STREAM_LAYERS, [Layers(1, first, None, first * step_time, columns)])
        rate = 3e-4 * np.minimum(1.0, index / (0.01 * steps)) * (0.55 + 0.45 * np.cos(np.pi * index / steps))
        transmitter.send(STREAM_CORE, [block_of(first, index, curve, rate, step_time)])
        t = float(index[-1]) * step_time
        while t >= beat:
            host = Host(beat, process_cpu=1.0, process_rss=2 << 30, host_cpu=2.0, cores=8, memory_used=8 << 30)
            transmitter.send(STREAM_CORE, [host, Heartbeat(beat, beat, "backward", 0.5 * step_time, int(index[-1]))])
            beat += 1.0
    transmitter.recording.close()
    return sum(path.stat().st_size for path in folder.iterdir())


def block_of(first: int, index: np.ndarray, curve: np.ndarray, rate: np.ndarray, step_time: float) -> Steps:
    return Steps(
        count=len(index),
        ordinal=first,
        t=f8(index * step_time),
        duration=f4(step_time * curve[0]),
        losses={"loss": f8(curve[1]), **{f"loss/{n}": f8(curve[12 + n - 1]) for n in range(1, LOSSES + 1)}},
        lrs={"lr/0.0": f8(rate), "lr/0.1": f8(rate / 10)},
        phases={
            name: f4(step_time * curve[4 + n] / 5)
            for n, name in enumerate(("data", "forward", "backward", "optimizer", "other"))
        },
        grad_norm=f8(curve[9]),
        clip=f4(curve[10]),
        loss_scale=f8(np.full(len(index), 65_536.0)),
        micro=Column("i4", np.ones(len(index), "<i4").tobytes()),
    )


def read(run: str, diagnose: bool) -> None:
    """Load the run in this process and say what it took."""
    begin = time.perf_counter()
    if diagnose:
        from ntstop.session import Session

        session = Session(run)
        session.load()
        state = session.state
    else:
        from ntstop.run.state import RunState
        from ntstop.sources.live import RunSource

        state, source = RunState(), RunSource(Path(run), live=False)
        while arrivals := source.poll(0.0):
            for writer, _, record in arrivals:
                state.apply(writer, record)
    assert state.primary is not None
    loss = state.primary.series["loss"]
    found = loss.window(0, loss.count, 240)
    took = time.perf_counter() - begin
    assert found.count.sum() == loss.count
    usage = resource.getrusage(resource.RUSAGE_SELF)
    memory, cpu = usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime
    what = "with diagnosis" if diagnose else "state only    "
    curves = len(state.primary.series)
    print(f"{what}  {took:6.2f} s  {cpu:6.2f} s of CPU  {memory:6.0f} MB  {loss.count:,} steps × {curves} curves")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--layers", type=int, default=0)
    parser.add_argument("--step-time", type=float, default=STEP_TIME, metavar="SECONDS")
    parser.add_argument("--read", metavar="RUN")
    parser.add_argument("--diagnose", action="store_true")
    options = parser.parse_args()
    if options.read:
        read(options.read, options.diagnose)
        return
    with tempfile.TemporaryDirectory() as home:
        os.environ["NTSTOP_HOME"] = home
        folder = Path(home) / "runs" / "bench" / "host-1-0"
        folder.mkdir(parents=True)
        size = write(folder, options.steps, options.layers, options.step_time)
        print(f"{size / 1e6:.0f} MB recorded")
        for extra in ([], [], ["--diagnose"]):
            command = [sys.executable, "-m", "tests.bench.load_recording", "--read", str(folder.parent), *extra]
            begin = time.perf_counter()
            subprocess.run(command, check=True)
            print(f"  from the shell {time.perf_counter() - begin:.2f} s")


if __name__ == "__main__":
    main()
