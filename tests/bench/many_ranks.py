"""A run of 1,024 ranks in one terminal: what reading and judging it costs, and how long a key takes to the paint.

    python -m tests.bench.many_ranks [--ranks 1024] [--seconds 15] [--processes 2]

A few processes play all ranks: each rank has a folder, a recording and an XPUB socket of its own, as the probe makes
them, and sends 10 records a second in 5 frames (a block of two steps, and a heartbeat, the host or a logged number).
Then `ntstop RUN` is opened in a pseudo-terminal of 120×40. The design's figures: less than one core, and 95 of 100
keys painted within 50 ms. The publishers share the machine, so the key figure is the worse for it.
CPU time a record does not depend on what else the machine does; the rest does.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import secrets
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

import numpy as np
import psutil
import zmq

from ntstop_probe import registry
from ntstop_probe.endpoint import socket_path
from ntstop_probe.recording import Recording
from ntstop_probe.registry import ProcessInfo
from ntstop_probe.wire import (
    PROTOCOL,
    STREAM_CORE,
    Column,
    Heartbeat,
    Hello,
    Host,
    Record,
    Scalars,
    Steps,
    encode_batch,
    encode_frame,
)

from .viewer import Viewer

FRAMES = 5
"""Frames a second of each rank, of two records."""
STEPS = 2
"""Steps in a frame."""
AXIS_KEYS = (b"\x1b[D", b"\x1b[D", b"\x1b[C", b"+", b"-")
"""Cursor left, left and right, zoom in and out: each changes something."""
KEYS = (b"y", b"e", *AXIS_KEYS)
"""Log axis and smoothing, too, where there is a loss."""
RANKS_KEYS = (b"\x1b[B", b"\x1b[B", b"\x1b[A", *AXIS_KEYS)
"""The same with another row of the table."""


def f4(*values: float) -> Column:
    return Column("f4", np.array(values, "<f4").tobytes())


def f8(*values: float) -> Column:
    return Column("f8", np.array(values, "<f8").tobytes())


class Rank:
    """One rank: announces itself, records, publishes."""

    def __init__(self, run: str, rank: int, world: int, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self.writer = secrets.randbits(63)
        self.sequence = self.ordinal = 0
        pid, started = os.getpid(), registry.process_start_time(os.getpid()) or 0.0
        folder = registry.runs_folder() / run / f"host-{rank}-{pid}"
        folder.mkdir(parents=True, mode=0o700)
        path = socket_path()
        self.socket = context.socket(zmq.XPUB)
        self.socket.setsockopt(zmq.SNDHWM, 256)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.bind(f"ipc://{path}")
        self.recording = Recording(folder)
        info = ProcessInfo(
            protocol=PROTOCOL, run=run, folder=folder.name, writer=self.writer, host=socket.gethostname(),
            boot=registry.boot_id(), pid_namespace=registry.pid_namespace(), pid=pid, started=started,
            wall=time.time(), rank=rank, endpoint=f"ipc://{path}",
        )  # fmt: skip
        registry.write_process_info(folder, info)
        self.recording.open_segment(STREAM_CORE)
        hello = Hello(
            PROTOCOL, run, folder.name, info.host, info.boot, info.pid_namespace, pid, started, 0, time.monotonic(),
            time.time(), rank, world, 100_000,
        )  # fmt: skip
        self._send([hello])

    def turn(self, now: float) -> None:
        """One frame: the steps of a fifth of a second, and something that comes less often."""
        first, self.ordinal = self.ordinal, self.ordinal + STEPS
        times = [now - 0.1, now]
        loss = [2.0 + 1.0 / (1 + 0.01 * step) + 0.01 * (step * 0.618 % 1) for step in (first, first + 1)]
        steps = Steps(
            STEPS, first, f8(*times), f4(*self.about(0.1)), losses={"loss": f8(*loss)}, lrs={"lr": f8(1e-3, 1e-3)},
            phases={name: f4(*self.about(0.02)) for name in ("data", "forward", "backward", "optimizer", "other")},
            grad_norm=f8(*self.about(1.0)), micro=Column("i4", np.ones(2, "<i4").tobytes()),
        )  # fmt: skip
        self._send([steps, self._other(now)])

    def about(self, usual: float) -> Sequence[float]:
        """A value for each step of a frame."""
        return (usual,) * STEPS

    def _other(self, now: float) -> Record:
        match (self.ordinal // STEPS) % FRAMES:
            case 0:
                return Heartbeat(now, time.time(), "forward", 0.01, self.ordinal)
            case 1:
                return Host(now, 1.0, 10**9, 2.0, 8, 10**10, 10**11, 0.0, 0, 0)
            case _:
                return Scalars(now, None, self.ordinal, {"accuracy": 0.5})

    def _send(self, records: list[Record]) -> None:
        self.sequence += 1
        frame = encode_frame(STREAM_CORE, self.writer, self.sequence, encode_batch(records))
        self.recording.write(STREAM_CORE, frame)
        self.socket.send(frame, zmq.NOBLOCK)


def publish(run: str, first: int, count: int, world: int) -> None:
    """Play `count` ranks until stdin is closed."""
    context = zmq.Context(io_threads=1)
    context.set(zmq.MAX_SOCKETS, 4096)
    ranks = [Rank(run, first + index, world, context) for index in range(count)]
    print("ready", flush=True)
    period, due, index = 1.0 / (FRAMES * count), time.monotonic(), 0
    late = 0.0
    while not select.select([sys.stdin], [], [], 0)[0]:
        for _ in range(16):
            ranks[index].turn(time.monotonic())
            index = (index + 1) % count
            due += period
        pause = due - time.monotonic()
        late = max(late, -pause)
        if pause > 0:
            time.sleep(pause)
    print(f"behind by {late:.2f} s at most", file=sys.stderr)


def keys(viewer: Viewer, pressed: Sequence[bytes], seconds: float) -> list[float]:
    """Milliseconds from each key to the next bytes that are painted, over some seconds; rising."""
    took, end = list[float](), time.monotonic() + seconds
    for key in itertools.cycle(pressed):
        if time.monotonic() > end:
            break
        viewer.read(0.3)
        if (painted := viewer.press(key)) is not None:
            took.append(1000 * painted[0])
    return sorted(took)


def headless(run: str, seconds: float) -> None:
    """Read and judge the run without a screen, and say what that costs."""
    from ntstop.session import Session

    with Session(run) as session:
        begin = time.monotonic()
        caught_up = session.wait_for_end(60.0)
        print(f"caught up: {caught_up} after {time.monotonic() - begin:.1f} s", file=sys.stderr)
        before, start, records = time.process_time(), time.monotonic(), session.state.version
        time.sleep(seconds)
        took, cpu, records = time.monotonic() - start, time.process_time() - before, session.state.version - records
        figures = {
            "ranks": len(session.state.ranks),
            "records_per_second": round(records / took),
            "cores": round(cpu / took, 3),
            "cpu_us_per_record": round(1e6 * cpu / max(records, 1), 1),
            "gaps": session.status.gaps,
            "rss_mb": psutil.Process().memory_info().rss >> 20,
        }
        print(json.dumps(figures))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--publish", nargs=4, metavar=("RUN", "FIRST", "COUNT", "WORLD"))
    parser.add_argument("--headless", metavar="RUN")
    options = parser.parse_args()
    if options.publish:
        run, *numbers = options.publish
        publish(run, *map(int, numbers))
        return
    if options.headless:
        headless(options.headless, options.seconds)
        return
    with tempfile.TemporaryDirectory() as home:
        os.environ["NTSTOP_HOME"] = home
        share = options.ranks // options.processes
        me = [sys.executable, "-m", "tests.bench.many_ranks"]
        publishers = [
            subprocess.Popen(
                [*me, "--publish", "many", str(number * share), str(share), str(options.ranks)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )
            for number in range(options.processes)
        ]  # fmt: skip
        try:
            for publisher in publishers:
                assert publisher.stdout is not None
                publisher.stdout.readline()
            subprocess.run([*me, "--headless", "many", "--seconds", str(options.seconds)], check=True)
            print(json.dumps(screen(options.seconds)))
        finally:
            for publisher in publishers:
                publisher.communicate()


def screen(seconds: float) -> dict[str, float]:
    """The same with a screen, and with keys: on the overview, and on the screen of the ranks."""
    viewer = Viewer("many")
    paint = viewer.first_paint()
    viewer.read(5.0)
    cores, _ = viewer.idle(seconds)
    took = keys(viewer, KEYS, seconds)
    viewer.press(b"6")
    beside = keys(viewer, RANKS_KEYS, seconds)
    viewer.close()
    return {
        "first_paint_s": round(paint, 2),
        "cores": round(cores, 3),
        "keys": len(took),
        "key_p50_ms": round(took[len(took) // 2], 1),
        "key_p95_ms": round(took[int(0.95 * len(took))], 1),
        "ranks_key_p50_ms": round(beside[len(beside) // 2], 1),
        "ranks_key_p95_ms": round(beside[int(0.95 * len(beside))], 1),
        "load": round(os.getloadavg()[0], 1),
    }


if __name__ == "__main__":
    main()
