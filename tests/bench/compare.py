"""What watching a training costs: nothing, ntstop, traceml-ai and wandb.watch, beside each other in one run.

    python -m tests.bench.compare [--workload NAME] [--watcher NAME] [--rounds N] [--markdown | --json]

Each watcher has a process of its own with the same training in it. They take turns: a block of steps with the watcher
off and one with it on (or the other way round), then the next process, so that the machine's drift meets all alike.
`added` is the median over the rounds of (median step on - median step off), with its standard error; `added, mean` is
of means, in which the steps that a watcher works harder on show. For `bare` the two blocks are the same: the noise.

Steps are timed on the training thread, fetch to optimizer. Not measured here: a GPU, and what a watcher's other
processes and threads cost a machine without a free core. Standard error and load are printed: look at them first.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.figures import error_of_mean, error_of_median, quantile
from tests.bench.plans import PLANS, WATCHERS, missing

REPOSITORY = Path(__file__).resolve().parents[2]
WORKER = Path(__file__).with_name("paired_worker.py")
LOOK = 5.0
"""Times the watcher's usual account of a step, from which on it has looked at the layers."""
PATIENCE = 120.0
"""Seconds that a worker may take to start, or for one block."""


@dataclass
class Measured:
    """Seconds of each step of one watcher, a list a block."""

    on: list[list[float]] = field(default_factory=list)
    off: list[list[float]] = field(default_factory=list)
    own: list[float] = field(default_factory=list)
    early: list[float] = field(default_factory=list)
    """What the watcher says it spent in each step of the blocks, and in each before them."""
    interval: int | None = None

    def row(self, bare: Measured) -> dict[str, float | None]:
        """Seconds, and shares; `bare`: the process that nothing watches."""
        on, off = _flat(self.on), _flat(self.off)
        medians = [statistics.median(a) - statistics.median(b) for a, b in zip(self.on, self.off, strict=True)]
        means = [statistics.fmean(a) - statistics.fmean(b) for a, b in zip(self.on, self.off, strict=True)]
        return {
            "step": statistics.median(on),
            "p99.5": quantile(on, 0.995),
            "p99.5 off": quantile(off, 0.995),
            "added": statistics.median(medians),
            "added error": error_of_median(medians),
            "added mean": statistics.fmean(means),
            "added mean error": error_of_mean(means),
            "ratio": 1.0 + statistics.median(medians) / statistics.median(off),
            "off beside bare": statistics.median(off) / statistics.median(_flat(bare.off)),
            "own": statistics.median(self.own) if self.own else None,
            "own share": sum(self.own) / sum(on) if self.own else None,
            "look": self.look(),
            "interval": self.interval,
        }

    def look(self) -> float | None:
        """Seconds of a step in which the layers were looked at: those that took many times what the others take.

        The very first is left out: it pays for caches and lazy set-up. In so few steps of a large model most looks are
        among those of the warm-up.
        """
        if not self.interval or not self.own:
            return None
        usual = statistics.median(self.own)
        looks = [spent for spent in (*self.early[1:], *self.own) if spent > LOOK * usual]
        return statistics.median(looks) if looks else None


class Worker:
    """One training process and the line to it."""

    def __init__(self, watcher: str, workload: str, home: Path) -> None:
        path = str(home / "socket")
        command = [sys.executable, str(WORKER)]
        if watcher == "traceml-ai":
            command = [
                *(str(Path(sys.executable).with_name("traceml")), "run", str(WORKER), "--no-save-training-output"),
                *("--logs-dir", str(home / "traceml")),
                *("--aggregator-port", str(_free_port()), "--master-port", str(_free_port())),
            ]
        environment = {
            **os.environ,
            "BENCH_WATCHER": watcher,
            "BENCH_WORKLOAD": workload,
            "BENCH_SOCKET": path,
            "BENCH_WANDB_EVERY": str(PLANS[workload].wandb_every),
            "NTSTOP_HOME": str(home / "ntstop"),
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
            "WANDB_DIR": str(home),
            "WANDB_CACHE_DIR": str(home),
            "WANDB_CONFIG_DIR": str(home),
            "WANDB_DATA_DIR": str(home),
            "WANDB_MODE": "offline",
        }
        self.log = home / "output.txt"
        with socket.socket(socket.AF_UNIX) as server, self.log.open("wb") as output:
            server.bind(path)
            server.listen()
            server.settimeout(1.0)
            self.process = subprocess.Popen(
                command, env=environment, cwd=home, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
            self._connection = self._accept(server)
        self._connection.settimeout(PATIENCE)
        self._stream: Any = self._connection.makefile("rw", encoding="utf-8")
        self._stream.readline()

    def _accept(self, server: socket.socket) -> socket.socket:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                return server.accept()[0]
            except TimeoutError:
                if self.process.poll() is not None:
                    break
        self.process.kill()
        raise SystemExit(f"a worker did not start; it said:\n{self.log.read_text(errors='replace')[-2000:]}")

    def block(self, state: str, settle: int, steps: int) -> dict[str, Any]:
        """Have it do a block of steps."""
        print(json.dumps([state, settle, steps]), file=self._stream, flush=True)
        line = self._stream.readline()
        if not line:
            raise SystemExit(f"a worker died; it said:\n{self.log.read_text(errors='replace')[-2000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """Let it end."""
        self._stream.close()
        self._connection.close()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()


def measure(workload: str, watchers: list[str], rounds: int, home: Path) -> dict[str, Measured]:
    """All watchers on one workload, in turn."""
    plan = PLANS[workload]
    workers: dict[str, Worker] = {}
    measured = {name: Measured() for name in watchers}
    try:
        for name in watchers:
            folder = home / f"{workload}-{watchers.index(name)}"
            folder.mkdir()
            workers[name] = Worker(name, workload, folder)
            warm_up = workers[name].block("on", 0, plan.warm_up)
            measured[name].early += [own for own in warm_up["own"] if own is not None]
        for turn in range(rounds):
            for name, worker in workers.items():
                for state in ("off", "on") if turn % 2 else ("on", "off"):
                    answer = worker.block(state, plan.settle, plan.steps)
                    (measured[name].on if state == "on" else measured[name].off).append(answer["times"])
                    if state == "on":
                        measured[name].own += [own for own in answer["own"] if own is not None]
                        measured[name].interval = answer["interval"]
    finally:
        for worker in workers.values():
            worker.close()
    return measured


def _flat(blocks: list[list[float]]) -> list[float]:
    return [value for block in blocks for value in block]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _memory_available() -> float:
    """Gigabytes; infinite where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return float("inf")
    return next((int(line.split()[1]) / 1e6 for line in lines if line.startswith("MemAvailable")), float("inf"))


def _duration(seconds: float, signed: bool = False) -> str:
    sign = "+" if signed else ""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if abs(seconds) >= size:
            return f"{seconds / size:{sign}.3g} {unit}"
    return f"{seconds * 1e6:{sign}.{0 if abs(seconds) >= 1e-5 else 1}f} µs"


def _with_error(value: float, error: float) -> str:
    return f"{_duration(value, signed=True)} ± {'?' if error != error else _duration(error)}"


HEADER = ("workload", "watched by", "step, median", "p99.5", "added", "ratio", "added, mean")


def _cells(workload: str, name: str, row: dict[str, Any]) -> tuple[str, ...]:
    shown = name
    if name == "wandb.watch":
        shown = f"wandb.watch, every {PLANS[workload].wandb_every:,} steps"
    elif name == "ntstop layers" and row["interval"]:
        shown = f"ntstop layers, every {row['interval']:,} steps"
    elif name == "bare":
        shown = "nothing (the noise)"
    return (
        workload,
        shown,
        _duration(row["step"]),
        _duration(row["p99.5"]),
        _with_error(row["added"], row["added error"]),
        f"{row['ratio']:.3f}",
        _with_error(row["added mean"], row["added mean error"]),
    )


def show(table: dict[str, dict[str, dict[str, Any]]], markdown: bool) -> None:
    """The table, and what ntstop says of itself below it."""
    lines = [_cells(workload, name, row) for workload, rows in table.items() for name, row in rows.items()]
    if markdown:
        print("| " + " | ".join(HEADER) + " |\n|" + " --- |" * len(HEADER))
        for cells in lines:
            print("| " + " | ".join(cells) + " |")
    else:
        widths = [max(len(cells[column]) for cells in (HEADER, *lines)) for column in range(len(HEADER))]
        for cells in (HEADER, *lines):
            print("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip())
    print()
    for workload, rows in table.items():
        for name, row in rows.items():
            off = f"{workload}, {name}: switched off a step takes {row['off beside bare']:.3f} of bare"
            own = ""
            if row["own"] is not None:
                own = (
                    f"; by its own account {_duration(row['own'])} a step, {100 * row['own share']:.2f} % of all steps"
                )
            if row["look"] is not None:
                share = 100 * (row["own"] + row["look"] / row["interval"]) / row["step"]
                own += f"; a look {_duration(row['look'])} every {row['interval']} steps, {share:.2f} % with it"
            print(off + own)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", action="append", choices=list(PLANS), help="only this; may be repeated")
    parser.add_argument("--watcher", action="append", choices=list(WATCHERS), help="only this, beside bare")
    parser.add_argument("--rounds", type=int, help="blocks on and off of each watcher; default by workload")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true")
    form.add_argument("--json", action="store_true")
    options = parser.parse_args()
    wanted = [name for name in WATCHERS if name == "bare" or not options.watcher or name in options.watcher]
    watchers = []
    for name in wanted:
        lacking = missing(name)
        if lacking is None:
            watchers.append(name)
        else:
            print(f"{name}: not installed: pip install {lacking}", file=sys.stderr)
    table = {}
    with tempfile.TemporaryDirectory(prefix="bench") as home:
        for workload in options.workload or PLANS:
            plan = PLANS[workload]
            needed, there = plan.gigabytes * len(watchers), _memory_available()
            if needed > there:
                print(f"{workload}: needs {needed:.0f} GB of memory, {there:.0f} are free", file=sys.stderr)
                continue
            began, load = time.monotonic(), os.getloadavg()[0]
            measured = measure(workload, watchers, options.rounds or plan.rounds, Path(home))
            table[workload] = {name: found.row(measured["bare"]) for name, found in measured.items()}
            took = time.monotonic() - began
            print(f"{workload}: {took:.0f} s, load {load:.1f} → {os.getloadavg()[0]:.1f}", file=sys.stderr)
    if options.json:
        print(json.dumps(table))
    else:
        show(table, options.markdown)


if __name__ == "__main__":
    main()
