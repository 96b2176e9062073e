"""Does a viewer that is left open grow? The memory of one at five minutes of a run, and at an hour.

    python -m tests.bench.long_watch [--minutes 60] [--speed 60]

A publisher plays a run of 100 ms steps faster than it was: recording, XPUB socket, a block of two steps five times a
second of the run, each second a heartbeat, the host and logged numbers, every five seconds two norms of 100 layers.
`ntstop RUN` shows it in a pseudo-terminal of 120×40, and the screens are gone through again and again; the first five
minutes are played at 15× at most, so that each was seen a few times before the memory is read first. An hour at 60×
takes a minute and a half. The design's figure: an hour takes within 10 % of what five minutes take.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

import numpy as np
import psutil
import zmq

from ntstop_probe.wire import STREAM_LAYERS, Layers, Record, Schema, encode_batch, encode_frame

from .many_ranks import FRAMES, STEPS, Rank, f4
from .viewer import Viewer

MARKS = (5, 10, 20, 30, 45, 60, 120, 240, 480, 720)
"""Minutes of the run at which the memory is read."""
SLOWLY = 15.0
"""Speed up to the first mark, at most."""
LAYERS = 100
LOOK = 5
"""Seconds between two looks at the layers."""
SCREENS = b"12345678"


class LongRun(Rank):
    """The only rank of a run, with layers."""

    def __init__(self, run: str) -> None:
        self._random = np.random.default_rng(0)
        super().__init__(run, 0, 1, zmq.Context())
        self.recording.open_segment(STREAM_LAYERS)
        self._send_layers([Schema(1, [f"layer.{index}" for index in range(LAYERS)])])

    def look(self, now: float) -> None:
        """A sample of the layers."""
        norms = np.abs(self._random.normal(1.0, 0.1, size=(2, LAYERS)))
        columns = {"grad_norm": f4(*norms[0]), "param_norm": f4(*norms[1])}
        self._send_layers([Layers(1, self.ordinal, None, now, columns)])

    def about(self, usual: float) -> Sequence[float]:
        """No two steps take the same time, as float32 has it."""
        return self._random.normal(usual, 0.05 * usual, STEPS).astype(np.float32).tolist()

    def _send_layers(self, records: list[Record]) -> None:
        self.sequence += 1
        frame = encode_frame(STREAM_LAYERS, self.writer, self.sequence, encode_batch(records))
        self.recording.write(STREAM_LAYERS, frame)
        self.socket.send(frame, zmq.NOBLOCK)


def publish(run: str, minutes: float, speed: float) -> None:
    """Play the run; a line with the minute at each of `MARKS`, and at the end wait until stdin is closed."""
    rank = LongRun(run)
    print("ready", flush=True)
    start, marks = time.monotonic(), [mark for mark in MARKS if mark <= minutes]
    for turn in range(int(60 * minutes * FRAMES)):
        passed = (turn + 1) / FRAMES
        first = min(passed, 60.0 * MARKS[0])
        pause = start + first / min(speed, SLOWLY) + (passed - first) / speed - time.monotonic()
        if pause > 0:
            time.sleep(pause)
        if turn % (LOOK * FRAMES) == 0:
            rank.look(start + passed)
        rank.turn(start + passed)
        if marks and passed >= 60 * marks[0]:
            print(marks.pop(0), flush=True)
    sys.stdin.read()


def watch(run: str, publisher: subprocess.Popen[str], marks: int) -> dict[str, float]:
    """Go through the screens until so many marks are passed: MB of the viewer by minute of the run."""
    assert publisher.stdout is not None
    viewer, seen, shown = Viewer(run), dict[str, float](), 0
    viewer.first_paint()
    process = psutil.Process(viewer.pid)
    while len(seen) < marks:
        os.write(viewer.master, SCREENS[shown % len(SCREENS) :][:1])
        shown += 1
        viewer.read(0.5)
        if select.select([publisher.stdout], [], [], 0)[0]:
            minute = publisher.stdout.readline().strip()
            # What came last is to be read, and drawn, before it is weighed.
            viewer.read(1.0)
            seen[f"minute_{minute}"] = round(process.memory_info().rss / 1e6, 1)
            print(f"minute {minute}: {seen[f'minute_{minute}']} MB", flush=True)
    viewer.close()
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--speed", type=float, default=60.0, help="times faster than the run was")
    parser.add_argument("--publish", nargs=3, metavar=("RUN", "MINUTES", "SPEED"))
    options = parser.parse_args()
    if options.publish:
        publish(options.publish[0], float(options.publish[1]), float(options.publish[2]))
        return
    with tempfile.TemporaryDirectory() as home:
        os.environ["NTSTOP_HOME"] = home
        command = [sys.executable, "-m", "tests.bench.long_watch", "--publish", "long"]
        publisher = subprocess.Popen(
            [*command, str(options.minutes), str(options.speed)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert publisher.stdout is not None
            publisher.stdout.readline()
            seen = watch("long", publisher, sum(mark <= options.minutes for mark in MARKS))
        finally:
            publisher.communicate()
    first, last = seen[next(iter(seen))], seen[list(seen)[-1]]
    print(json.dumps({**seen, "grown_percent": round(100 * (last / first - 1), 1)}))


if __name__ == "__main__":
    main()
