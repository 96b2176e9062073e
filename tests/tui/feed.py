"""The records of a training that never ran, for tests of the screen: real records, made-up numbers."""

from __future__ import annotations

import math
import random
import time
from collections import deque
from collections.abc import Sequence

from ntstop.sources.base import Arrival, SourceStatus
from ntstop_probe.wire import (
    Allocator,
    Device,
    Event,
    Heartbeat,
    Hello,
    Host,
    Layers,
    Manifest,
    ProbeStatus,
    Record,
    Scalars,
    Schema,
    Steps,
    pack,
)

WRITER = 7
STEP_SECONDS = 0.3
FLUSH = 10
"""Steps in a block: what a probe sends at once."""
GIB = 2**30


def hello(title: str = "gpt-small", total_steps: int | None = 50_000, pid: int = 4321) -> Hello:
    """Rank 0 of four on node17."""
    return Hello(
        protocol=1,
        run="run-1",
        writer=f"node17-{pid}-100",
        host="node17",
        boot="boot",
        pid_namespace="pid:[1]",
        pid=pid,
        started=1.0,
        attempt=0,
        t=0.0,
        wall=1.7e9,
        rank=0,
        world=4,
        total_steps=total_steps,
        title=title,
        probe="0.1.0",
        manifest=Manifest(command=["python", "train.py"], hardware={"gpu": "4×H100"}, seed=1),
    )


def steps(first: int, count: int, *, nan_from: int | None = None, seed: int = 0) -> Steps:
    """`count` steps of a falling, noisy loss with phases."""
    noise = random.Random(seed + first)
    places = range(first, first + count)
    loss = [
        math.nan
        if nan_from is not None and place >= nan_from
        else 1.5 + 3 * math.exp(-place / 2000) + noise.gauss(0, 0.08)
        for place in places
    ]
    share = {"data": 0.25, "forward": 0.2, "backward": 0.4, "optimizer": 0.1, "other": 0.05}
    durations = [STEP_SECONDS * (1 + 0.1 * noise.random()) for _ in places]
    return Steps(
        count=count,
        ordinal=first,
        t=pack("f8", [place * STEP_SECONDS for place in places]),
        duration=pack("f4", durations),
        losses={"loss": pack("f8", loss)},
        lrs={"lr": pack("f8", [3e-4] * count)},
        phases={name: pack("f4", [part * duration for duration in durations]) for name, part in share.items()},
        grad_norm=pack("f8", [1 + noise.random() for _ in places]),
    )


def schema(names: list[str]) -> Schema:
    """Layers of these names, all trained."""
    count = len(names)
    return Schema(id=1, names=names, numel=[1000] * count, frozen=[False] * count, in_optimizer=[True] * count)


def layers(ordinal: int, count: int) -> Layers:
    """One sample: ratios around the healthy band, lower in deeper layers."""
    noise = random.Random(ordinal)
    grads = [3e-3 * 10 ** (1.5 * (place / count - 0.5) + noise.gauss(0, 0.1)) for place in range(count)]
    return Layers(
        schema=1,
        ordinal=ordinal,
        step=None,
        t=ordinal * STEP_SECONDS,
        columns={
            "grad_norm": pack("f4", grads),
            "param_norm": pack("f4", [1.0 + 1e-4 * ordinal] * count),
            "update_ratio": pack("f4", [1e-3] * count),
        },
        interval=10,
    )


def host(t: float) -> Host:
    """A busy host of 16 cores."""
    return Host(
        t=t,
        process_cpu=3.2 + math.sin(t / 9),
        process_rss=6 * GIB,
        host_cpu=7.5 + math.sin(t / 7),
        cores=16,
        memory_used=40 * GIB,
        memory_total=128 * GIB,
        children_cpu=1.5,
        children_rss=3 * GIB,
        children=4,
    )


def device(t: float) -> Device:
    """An accelerator at work."""
    return Device(
        t=t,
        index=0,
        uuid="GPU-1",
        name="NVIDIA H100 80GB",
        utilization=63 + 10 * math.sin(t / 5),
        memory_used=61 * GIB,
        memory_total=80 * GIB,
        power=412.0,
        power_limit=700.0,
        temperature=63.0,
    )


def allocator(t: float) -> Allocator:
    """Its allocator."""
    return Allocator(
        t=t, index=0, allocated=52 * GIB, reserved=58 * GIB, active=53 * GIB, inactive_split=2 * GIB, retries=0, ooms=0
    )


def heartbeat(t: float, ordinal: int, *, phase: str = "forward", age: float = 0.05, reason: str = "") -> Heartbeat:
    """Alive at `t`."""
    return Heartbeat(
        t=t,
        wall=1.7e9 + t,
        phase=phase,
        age=age,
        ordinal=ordinal,
        probe=ProbeStatus(cost=2e-5, share=0.003, layer_interval=10),
        reason=reason,
    )


def training(
    count: int = 4000, *, gpu: bool = False, layer_names: list[str] | None = None, nan_from: int | None = None
) -> list[Record]:
    """All records of `count` steps, in the order a probe sends them."""
    names = layer_names or [f"blocks.{block}.{part}" for block in range(6) for part in ("attn.weight", "mlp.weight")]
    records: list[Record] = [hello(), schema(names)]
    for first in range(0, count, FLUSH):
        block = min(FLUSH, count - first)
        records += [layers(place, len(names)) for place in range(first, first + block, 10)]
        records.append(steps(first, block, nan_from=nan_from))
        last = first + block
        t = last * STEP_SECONDS
        if last % 500 == 0:
            value = 1.6 + 3 * math.exp(-last / 2000)
            records.append(Scalars(t=t, step=last, ordinal=last, values={"val/loss": value}))
        if last % 1000 == 0:
            records.append(Event(t=t, kind="checkpoint", text="model.pt", ordinal=last))
        records.append(host(t))
        if gpu:
            records += [device(t), allocator(t)]
        records.append(heartbeat(t, last))
    return records


class FedSource:
    """A source that says what it is given: `give` records, and they arrive."""

    def __init__(self, records: Sequence[Record] = ()) -> None:
        self.status = SourceStatus(live=True, complete=True)
        self._waiting: deque[Record] = deque(records)
        self._sequence = 0

    def give(self, records: Sequence[Record]) -> None:
        """Let these arrive with the next poll."""
        self._waiting.extend(records)

    def poll(self, timeout: float) -> list[Arrival]:
        """What was given since the last time."""
        if not self._waiting:
            time.sleep(min(timeout, 0.02))
        arrivals = []
        while self._waiting:
            arrivals.append(Arrival(WRITER, self._sequence, self._waiting.popleft()))
            self._sequence += 1
        return arrivals

    def refresh(self) -> None:
        """There is no recording to look at."""

    def close(self) -> None:
        """Nothing is held."""
