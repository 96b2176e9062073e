"""A process of a run for tests of the monitor: the probe's own recording and socket, with records made here."""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from ntstop_probe import registry
from ntstop_probe.live import LiveSocket
from ntstop_probe.recording import Recording
from ntstop_probe.registry import ProcessInfo
from ntstop_probe.transmitter import Transmitter
from ntstop_probe.wire import (
    PROTOCOL,
    STREAM_CORE,
    STREAM_LAYERS,
    Column,
    Event,
    Heartbeat,
    Hello,
    Layers,
    Record,
    Schema,
    Steps,
    pack,
)

EPOCH = 1_000.0
"""Monotonic seconds at which a test's process begins."""


def column(kind: str, values: Sequence[float | int | None]) -> Column:
    packed = pack(kind, values)  # type: ignore[arg-type]
    assert packed is not None
    return packed


def steps(first: int, losses: Sequence[float | None], *, at: int | None = None, attempt: int = 0) -> Steps:
    """A block from ordinal `first`, a step every 0.1 s; `at` is the global step of the first."""
    count = len(losses)
    return Steps(
        count=count,
        ordinal=first,
        t=column("f8", [EPOCH + 0.1 * (first + index + 1) for index in range(count)]),
        duration=column("f4", [0.1] * count),
        step=None if at is None else column("i8", [at + index for index in range(count)]),
        step_source="" if at is None else "user",
        attempt=attempt,
        losses={"loss": packed} if (packed := pack("f8", losses)) is not None else {},
        lrs={"lr": column("f8", [0.001] * count)},
        phases={"data": column("f4", [0.01] * count), "forward": column("f4", [0.09] * count)},
        grad_norm=column("f8", [1.0] * count),
    )


class Writer:
    """Announces itself like the probe and records what it is told to, live too with `live=True`.

    The pid is this process's, unless another is given.
    """

    def __init__(
        self,
        run: str = "run-1",
        *,
        rank: int | None = None,
        attempt: int = 0,
        pid: int | None = None,
        host: str | None = None,
        live: bool = False,
        record: bool = True,
        segment_bytes: int = 8 * 1024 * 1024,
        title: str | None = None,
    ) -> None:
        self.pid = os.getpid() if pid is None else pid
        self.host = host or socket.gethostname()
        self.started = registry.process_start_time(self.pid) or 12.0
        self.writer = secrets.randbits(63)
        self.run, self.rank, self.attempt, self.title = run, rank, attempt, title
        # One test process plays many: the folder's name would be the same without the attempt and rank in it.
        name = registry.process_folder_name(f"{self.host}-{rank}-{attempt}", self.pid, self.started)
        self.folder: Path = registry.runs_folder() / run / name
        self.folder.mkdir(parents=True, mode=0o700)
        self.transmitter = Transmitter(self.writer, self.hello)
        if record:
            self.transmitter.recording = Recording(self.folder, segment_bytes)
        if live:
            self.transmitter.live = LiveSocket(self.writer)
        self.announce()

    def hello(self) -> Hello:
        return Hello(
            PROTOCOL, self.run, self.folder.name, self.host, registry.boot_id(), registry.pid_namespace(), self.pid,
            self.started, self.attempt, EPOCH, time.time(), self.rank, None, 1000, self.title,
        )  # fmt: skip

    def announce(self, *, protocol: int = PROTOCOL) -> None:
        live = self.transmitter.live
        info = ProcessInfo(
            protocol=protocol, run=self.run, folder=self.folder.name, writer=self.writer, host=self.host,
            boot=registry.boot_id(), pid_namespace=registry.pid_namespace(), pid=self.pid, started=self.started,
            wall=time.time(), rank=self.rank, attempt=self.attempt, title=self.title,
            endpoint=live.endpoint if live else None,
        )  # fmt: skip
        registry.write_process_info(self.folder, info)

    def send(self, *records: Record) -> None:
        self.transmitter.send(STREAM_CORE, records)

    def send_layers(self, *records: Layers | Schema) -> None:
        self.transmitter.send(STREAM_LAYERS, records)

    def train(self, first: int, count: int, *, block: int = 10, at: int | None = None) -> None:
        """`count` steps from ordinal `first`, the loss being the ordinal."""
        for start in range(first, first + count, block):
            losses = [float(index) for index in range(start, min(start + block, first + count))]
            self.send(steps(start, losses, at=None if at is None else at + start - first, attempt=self.attempt))

    def beat(self, ordinal: int = 0, *, phase: str = "forward") -> None:
        now = time.time()
        self.send(Heartbeat(EPOCH + 0.1 * ordinal, now, phase, 0.1, ordinal))

    def exit(self, code: int | None = 0) -> None:
        self.send(Event(EPOCH + 999.0, "exit", data={"code": code}))

    def pump(self) -> None:
        """Let the socket take in who came."""
        if self.transmitter.live:
            self.transmitter.live.newcomers()

    def close(self) -> None:
        if self.transmitter.recording:
            self.transmitter.recording.close()
        if self.transmitter.live:
            self.transmitter.live.close()


def core(writer: Writer, number: int = 0) -> Path:
    return writer.folder / f"core-{number:06d}.nts"
