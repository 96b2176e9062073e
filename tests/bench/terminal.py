"""What the terminal costs while nobody touches it, and how soon a key is seen, beside other terminal monitors.

    python -m tests.bench.terminal [--seconds 15] [--only idle,layers,keys,beside] [--beside btop,htop]

Everything is measured in a pseudo-terminal of 120×40 by the same code: the process's own CPU time, the bytes it writes,
and the time from a key to the first and to the last byte of what it paints. Other monitors are measured where they are
installed (`apt install btop htop`). The design's figures: an idle overview of a live run of 150 layers at most 5 % of a
core and 20 kB/s; the layers of a thousand, 4 samples a second, at most 15 % of a core and no key without its frame; key
to paint p50 and p95 at most 20 and 50 ms in a run of 1,000,000 steps.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.bench.figures import quantile
from tests.bench.load_recording import STEP_TIME, write
from tests.bench.viewer import Viewer

LEFT, RIGHT, UP, DOWN, PAGE_DOWN = b"\x1b[D", b"\x1b[C", b"\x1b[A", b"\x1b[B", b"\x1b[6~"
OVERVIEW_KEYS = (LEFT, LEFT, RIGHT, b"+", LEFT, b"-", b"y", b"y", b"e", b"e", b"e", b"0")
DIALOGS = (b"\x10", b"\x10", b"?", b"?", b"R", b"R", b"\r", b"q")
"""Commands, help, runs and a card: each opened and closed."""
SCREENS = (b"2", b"4", b"5", b"8", b"1")
FRAME = 0.1
"""Seconds between two keys of somebody who scrolls: a paint that takes longer is a dropped frame."""


@contextlib.contextmanager
def playing(**options: int) -> Iterator[str]:
    """A live run, see `play`; its name."""
    command = [sys.executable, "-m", "tests.bench.play", "bench"]
    for name, option in options.items():
        command += [f"--{name}", str(option)]
    with tempfile.TemporaryDirectory() as home:
        os.environ["NTSTOP_HOME"] = home
        player = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            assert player.stdout is not None
            player.stdout.readline()
            yield "bench"
        finally:
            player.communicate()


def pressed(viewer: Viewer, keys: Sequence[bytes], times: int) -> dict[str, float]:
    """Key to paint, over `times` rounds of `keys`; those after which nothing was painted are counted.

    `cpu_ms`: CPU time a key, which is what an idle machine would take.
    """
    begin = viewer.cpu_seconds
    took = [viewer.press(keys[index % len(keys)]) for index in range(times * len(keys))]
    painted = [pair for pair in took if pair is not None]
    told: dict[str, float] = {"keys": len(took), "unseen": len(took) - len(painted)}
    told["cpu_ms"] = round(1000 * (viewer.cpu_seconds - begin) / len(took), 1)
    for name, place in (("first", 0), ("whole", 1)):
        times_ms = [1000 * pair[place] for pair in painted]
        told[f"{name}_p50_ms"] = round(quantile(times_ms, 0.5), 1)
        told[f"{name}_p95_ms"] = round(quantile(times_ms, 0.95), 1)
    return told


def cost(viewer: Viewer, seconds: float) -> dict[str, float]:
    """Of a screen that nobody touches."""
    cores, written = viewer.idle(seconds)
    return {"percent_of_a_core": round(100 * cores, 1), "kilobytes_per_second": round(written / 1000, 1)}


def idle(seconds: float) -> dict[str, float]:
    """The overview of a live run of 150 layers, keys on it, and what can be laid over it."""
    with playing() as run:
        viewer = Viewer(run)
        paint = viewer.first_paint()
        viewer.read(5.0)
        told = {"first_paint_s": round(paint, 2), **cost(viewer, seconds), **pressed(viewer, OVERVIEW_KEYS, 5)}
        over = pressed(viewer, DIALOGS, 6)
        viewer.close()
    return told | {f"dialog_{name}": value for name, value in over.items()}


def layers(seconds: float) -> dict[str, float]:
    """A thousand layers, and scrolling through them."""
    with playing(layers=1000) as run:
        viewer = Viewer(run)
        viewer.first_paint()
        viewer.press(b"3")
        viewer.read(5.0)
        told = cost(viewer, seconds)
        took = [viewer.press(key) for key in (DOWN,) * 60 + (PAGE_DOWN,) * 20 + (UP,) * 40]
        dropped = sum(pair is None or pair[0] > FRAME for pair in took)
        known = [1000 * pair[0] for pair in took if pair is not None]
        viewer.close()
    return {
        **told, "scrolled": len(took), "dropped": dropped,
        "key_p50_ms": round(quantile(known, 0.5), 1), "key_p95_ms": round(quantile(known, 0.95), 1),
    }  # fmt: skip


def keys(seconds: float) -> dict[str, float]:
    """Keys in a run of a million steps with 150 layers: on the overview, from screen to screen for the first time, when
    each is built, and again."""
    with tempfile.TemporaryDirectory() as home:
        os.environ["NTSTOP_HOME"] = home
        folder = Path(home) / "runs" / "bench" / "host-1-0"
        folder.mkdir(parents=True)
        write(folder, 1_000_000, 150, STEP_TIME)
        viewer = Viewer("bench")
        viewer.first_paint()
        # Until the recording is read and judged.
        deadline = time.monotonic() + 60
        while viewer.read(2.0) and time.monotonic() < deadline:
            pass
        told = pressed(viewer, OVERVIEW_KEYS, 8)
        built, again = pressed(viewer, SCREENS, 1), pressed(viewer, SCREENS, 6)
        viewer.close()
    told |= {f"new_screen_{name}": value for name, value in built.items()}
    return told | {f"screen_{name}": value for name, value in again.items()}


def beside(seconds: float, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Other terminal monitors, at their own pace: cost when idle, and the arrow keys."""
    found = {}
    for name in filter(shutil.which, names):
        viewer = Viewer(command=[name])
        viewer.read(5.0)
        found[name] = {**cost(viewer, seconds), **pressed(viewer, (DOWN, DOWN, UP), 10)}
        viewer.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--only", default="idle,layers,keys,beside")
    parser.add_argument("--beside", default="btop,htop,nvitop,glances")
    options = parser.parse_args()
    for name in options.only.split(","):
        load = os.getloadavg()[0]
        if name == "beside":
            for program, told in beside(options.seconds, options.beside.split(",")).items():
                print(json.dumps({"what": program, **told, "load": round(load, 1)}), flush=True)
        else:
            told = {"idle": idle, "layers": layers, "keys": keys}[name](options.seconds)
            print(json.dumps({"what": name, **told, "load": round(load, 1)}), flush=True)


if __name__ == "__main__":
    main()
