"""How fast logs of other tools are opened: one curve of a million points as a TensorBoard event file, beside
TensorBoard's own EventAccumulator, and as CSV, beside Python's csv module and, where it is installed, pandas.

    python tests/bench/foreign_logs.py [--points 1000000]

Each reading in a process of its own; "curves" is what `ntstop` does before its first picture: rows, series, diagnosis.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from ntstop.export.events import varint
from ntstop.sources.logs.crc import masked_crc

_MEASURE = """
import resource, sys, time
from pathlib import Path
path = sys.argv[1]
{imports}
began, spent = time.perf_counter(), time.process_time()
{work}
seconds, usage = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
print(f"{{seconds:.2f}} {{time.process_time() - spent:.2f}} {{usage.ru_maxrss / 1024:.0f}} {{points}}")
"""
_WAYS = {
    "ntstop, curves and findings": (
        "from ntstop.session import Session\nfrom ntstop.sources.logs.discover import log_targets\n"
        "from ntstop.sources.logs.source import LogSource",
        "session = Session(LogSource(log_targets(Path(path))[0])); session.load()\n"
        "points = session.state.primary.series['loss'].count",
    ),
    "ntstop, curves alone": (
        "from ntstop.run.state import RunState\nfrom ntstop.sources.logs.discover import log_targets\n"
        "from ntstop.sources.logs.source import LogSource",
        "source, state = LogSource(log_targets(Path(path))[0]), RunState(); source.live = False\n"
        "while arrivals := source.poll(0.0):\n    [state.apply(a.writer, a.record) for a in arrivals]\n"
        "points = state.primary.series['loss'].count",
    ),
}
_TENSORBOARD = (
    "from tensorboard.backend.event_processing.event_accumulator import EventAccumulator",
    "events = EventAccumulator(path, size_guidance={'scalars': 0}); events.Reload()\n"
    "points = len(events.Scalars('loss'))",
)
_CSV_READER = (
    "import csv",
    "points = sum(1 for row in csv.DictReader(open(path)) if float(row['loss']) and int(row['step']) >= 0)",
)
_PANDAS = ("import pandas", "points = len(pandas.read_csv(path))")
_PANDAS_PYTHON = ("import pandas", "points = len(pandas.read_csv(path, engine='python'))")


def write_events(path: Path, points: int) -> None:
    """One scalar "loss" a step, as SummaryWriter writes it."""
    with path.open("wb") as file:
        for step in range(points):
            value = b"\x0a\x04loss\x15" + struct.pack("<f", loss(step))
            summary = b"\x0a" + bytes([len(value)]) + value
            event = b"\x09" + struct.pack("<d", 1.7e9 + 0.1 * step) + b"\x10" + varint(step)
            event += b"\x2a" + bytes([len(summary)]) + summary
            length = struct.pack("<Q", len(event))
            file.write(length + struct.pack("<I", masked_crc(length)) + event + struct.pack("<I", masked_crc(event)))


def write_csv(path: Path, points: int) -> None:
    """Step and loss."""
    with path.open("w") as file:
        file.write("step,loss\n")
        file.writelines(f"{step},{loss(step):.6f}\n" for step in range(points))


def loss(step: int) -> float:
    """A descent with a small wobble."""
    return 1.5 + 3.0 * math.exp(-step / 2e5) + 0.02 * math.sin(step)


def measure(way: tuple[str, str], path: Path) -> str:
    """Seconds, CPU seconds, MB of peak memory, and points."""
    code = _MEASURE.format(imports=way[0], work=way[1])
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    if done.returncode:
        return f"failed: {done.stderr.strip().splitlines()[-1]}"
    seconds, cpu, size, points = done.stdout.split()
    return f"{seconds:>7} s  {cpu:>6} s of CPU  {size:>5} MB  {int(points):>9,} points"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=1_000_000)
    points = parser.parse_args().points
    with tempfile.TemporaryDirectory() as folder:
        events, table = Path(folder) / "events.out.tfevents.1.bench", Path(folder) / "metrics.csv"
        write_events(events, points)
        write_csv(table, points)
        for path, others in (
            (events, {"TensorBoard's EventAccumulator": ("tensorboard", _TENSORBOARD)}),
            (
                table,
                {
                    "csv.DictReader": ("csv", _CSV_READER),
                    "pandas.read_csv": ("pandas", _PANDAS),
                    "pandas.read_csv, engine='python'": ("pandas", _PANDAS_PYTHON),
                },
            ),
        ):
            print(f"{path.name}, {points:,} points, {path.stat().st_size / 1e6:.0f} MB")
            for name, way in _WAYS.items():
                print(f"  {name:<32} {measure(way, path)}")
            for name, (module, way) in others.items():
                there = importlib.util.find_spec(module) is not None
                print(f"  {name:<32} {measure(way, path) if there else 'not installed'}")


if __name__ == "__main__":
    main()
