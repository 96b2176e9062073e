"""A publisher in a thread of its own, and a subscriber to it, as the monitor is one."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import zmq

from ntstop_probe.outbox import Outbox
from ntstop_probe.progress import Progress
from ntstop_probe.publisher import Publisher
from ntstop_probe.rows import Row, StepRow
from ntstop_probe.told import Told
from ntstop_probe.wire import Frame, FrameReader, Record, decode_batch

from ..helpers import wait_until
from .reading import process_folders


def step(ordinal: int, loss: float | None = None, **more: object) -> StepRow:
    given = {} if loss is None else {"loss": loss}
    return StepRow(ordinal, time.monotonic(), 0.001, losses=given, phases={"data": 0.0005}, **more)  # type: ignore[arg-type]


class Job:
    """A publisher in a thread of its own, and the training thread's end of it."""

    def __init__(self) -> None:
        self.outbox = Outbox()
        self.progress = Progress()
        self.told = Told()
        self.trains = True
        self.stop_event = threading.Event()
        self.publisher: Publisher | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        self.publisher = Publisher(
            self.outbox, self.progress, self.told, lambda: None, lambda: self.trains, self.stop_event
        )
        self.publisher.run()

    def start(self) -> Job:
        self._thread.start()
        return self

    def put(self, *rows: Row) -> None:
        for row in rows:
            self.outbox.put(row)

    def stop(self) -> None:
        self.stop_event.set()
        self._thread.join(10)
        assert not self._thread.is_alive()


def folder_of(home: Path) -> Path:
    return wait_until(lambda: process_folders(home))[0]


class Viewer:
    """A subscriber, as the monitor is one."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], address: str, prefix: bytes = b"") -> None:
        self.socket = context.socket(zmq.SUB)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.RCVHWM, 100_000)
        self.socket.setsockopt(zmq.SUBSCRIBE, prefix)
        self.socket.connect(address)
        self.frames: list[Frame] = []

    def drain(self, timeout: float = 0.0) -> list[Frame]:
        while self.socket.poll(timeout * 1000):
            self.frames += FrameReader().feed(self.socket.recv())
        return self.frames

    def wait_for(self, kind: type[Record], beyond: int = 0) -> None:
        def seen() -> bool:
            self.drain()
            return any(isinstance(record, kind) for frame in self.frames[beyond:] for record in parts(frame))

        wait_until(seen, what=f"a {kind.__name__}")


def parts(frame: Frame) -> list[Record]:
    return decode_batch(frame.payload)[0]
