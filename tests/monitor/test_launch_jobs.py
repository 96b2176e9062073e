"""`ntstop run` around real trainings that know nothing of ntstop: one process, torchrun, spawned children, no probe."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ntstop.sources import runs
from tests.monitor.test_launch import ntstop_run

TRAIN = """
import torch
from torch import nn

def train(steps, model=None):
    model = model or nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.utils.data.TensorDataset(torch.randn(8 * steps, 4), torch.randn(8 * steps, 1))
    for x, y in torch.utils.data.DataLoader(data, 8):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
ONE = f"""{TRAIN}
train(30)
print("trained")
raise SystemExit(3)
"""
TWO_RANKS = f"""{TRAIN}
import torch.distributed as dist
dist.init_process_group("gloo")
train(30, nn.parallel.DistributedDataParallel(nn.Linear(4, 1)))
print("rank %d trained\\n" % dist.get_rank(), end="", flush=True)
dist.destroy_process_group()
"""
SPAWNED = f"""{TRAIN}
import torch.multiprocessing as mp
def child(index):
    train(20 + index)
if __name__ == "__main__":
    mp.spawn(child, nprocs=2)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return tmp_path / "train.py"


def test_an_unchanged_training_is_recorded_and_keeps_its_output_and_exit_code(script: Path) -> None:
    script.write_text(ONE)
    done = ntstop_run("--name", "one", "--title", "just one", "--", sys.executable, str(script))
    assert (done.returncode, done.stdout) == (3, "trained\n"), done.stderr
    entry = runs.resolve("one")
    assert (entry.first_step, entry.last_step, entry.ranks, entry.title) == (0, 29, 1, "just one")
    assert entry.last_loss is not None


def test_torchrun_with_two_ranks_is_one_run(script: Path) -> None:
    script.write_text(TWO_RANKS)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = ntstop_run("--name", "two", "--", *torchrun, str(script))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["rank 0 trained", "rank 1 trained"]
    entry = runs.resolve("two")
    trained = {process.rank: process.last_step for process in entry.processes if process.last_step is not None}
    assert trained == {0: 29, 1: 29}
    assert (entry.ranks, entry.state) == (2, "finished")


def test_children_that_are_spawned_are_processes_of_the_run(script: Path) -> None:
    script.write_text(SPAWNED)
    done = ntstop_run("--name", "spawned", "--", sys.executable, str(script))
    assert done.returncode == 0, done.stderr
    steps = [process.last_step for process in runs.resolve("spawned").processes if process.last_step is not None]
    assert sorted(steps) == [19, 20]


def test_ntstop_0_turns_the_probe_off(script: Path) -> None:
    script.write_text(ONE)
    done = ntstop_run("--name", "off", "--", sys.executable, str(script), env={**os.environ, "NTSTOP": "0"})
    assert (done.returncode, done.stdout) == (3, "trained\n")
    assert not runs.scan()


def other_pythons() -> list[str]:
    """Pythons 3.12 and 3.13 that are installed here and lack the probe."""
    root = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    candidates = [shutil.which(name) or "" for name in ("python3.12", "python3.13", "python3.14")]
    candidates += [
        str(path) for minor in (12, 13, 14) for path in sorted(root.glob(f"versions/3.{minor}.*/bin/python3"))
    ]
    check = "import sys, importlib.util as u; sys.exit(u.find_spec('ntstop_probe') is not None)"
    # A shim may stand for a Python that is not there.
    return [
        path for path in candidates if path and subprocess.run([path, "-c", check], capture_output=True).returncode == 0
    ]


def test_a_job_whose_python_lacks_the_probe_is_told_in_one_line_and_runs(script: Path) -> None:
    pythons = other_pythons()
    if not pythons:
        pytest.skip("no other Python here")
    script.write_text(
        "import sys, subprocess\nsubprocess.run([sys.executable, '-c', 'pass'])\nprint('ran')\nsys.exit(5)"
    )
    for python in pythons:
        done = ntstop_run("--", python, str(script))
        assert (done.returncode, done.stdout) == (5, "ran\n")
        [line] = done.stderr.splitlines()
        assert "pip install ntstop-probe" in line
