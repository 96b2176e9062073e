"""Small training jobs in processes of their own. Most need no torch: they hand the probe made-up steps."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import ntstop_probe

BOOT = Path(ntstop_probe.__file__).parent / "boot"

STEPS = '''
import os, sys, time
from pathlib import Path
import ntstop_probe
from ntstop_probe import core
from ntstop_probe.rows import StepRow

def probe():
    ntstop_probe.watch()
    return core.current()

def train(seconds, every=0.002, stop_file=""):
    """A step each `every` seconds until then or `stop_file`, said on stdout once handed over: "ordinal time"."""
    own, until = probe(), time.monotonic() + seconds
    while time.monotonic() < until and not (stop_file and os.path.exists(stop_file)):
        now = time.monotonic()
        own.outbox.put(StepRow(own.progress.steps, now, every, losses={"loss": 1.0}))
        own.progress.steps += 1
        os.write(1, b"%d %.6f\\n" % (own.progress.steps - 1, now))
        time.sleep(every)

def train_until(condition, patience=60):
    until = time.monotonic() + patience
    while not condition() and time.monotonic() < until:
        train(0.05)

def recorded():
    files = Path(os.environ["NTSTOP_HOME"]).glob("runs/*/*/core-*.nts")
    return any(file.stat().st_size > 0 for file in files)
'''
"""What the scripts below begin with."""

TORCH = """
import os, sys, time
import torch
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

def train(batches):
    for x in batches:
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()
"""


def launched(**more: str) -> dict[str, str]:
    """The environment that `ntstop run` makes."""
    return {**os.environ, "PYTHONPATH": str(BOOT), "NTSTOP_LAUNCHED": "1", **more}


@contextmanager
def running(
    script: str, *arguments: str, prelude: str = STEPS, environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A job from a script's text; killed at the end if it still runs."""
    command = [sys.executable, "-c", prelude + textwrap.dedent(script), *arguments]
    job = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield job
    finally:
        job.kill()
        job.communicate()


def run(
    script: str, *arguments: str, prelude: str = STEPS, environment: dict[str, str] | None = None, timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """The same, to its end."""
    with running(script, *arguments, prelude=prelude, environment=environment) as job:
        out, err = job.communicate(timeout=timeout)
        return subprocess.CompletedProcess(job.args, job.returncode, out, err)


def said_steps(out: str) -> list[tuple[int, float]]:
    """Ordinal and time of every step that a job has told on stdout."""
    pairs: list[Sequence[str]] = [line.split() for line in out.splitlines()]
    return [(int(pair[0]), float(pair[1])) for pair in pairs if len(pair) == 2 and pair[0].isdigit()]
