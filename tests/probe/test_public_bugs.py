"""Faults that other tools were reported for in public, each held off by a test of ours."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from .followed import complaints, followed, said, start
from .jobs import TORCH, launched, run, running
from .training import armed, data, mlp

pytestmark = pytest.mark.slow


def script_file(folder: Path, script: str) -> str:
    """The path of a job that can be started again by its own children."""
    path = folder / "train.py"
    path.write_text(textwrap.dedent(script))
    return str(path)


def ntstop(*words: str) -> subprocess.CompletedProcess[str]:
    """The monitor's command line."""
    command = [str(Path(sys.executable).parent / "ntstop"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_a_trainer_that_hides_nan_from_its_log_does_not_hide_it_from_us(home: Path, tmp_path: Path) -> None:
    logged = said(start("job_hf.py", str(tmp_path), "nan", run="hides"))["logged"]
    assert all(math.isfinite(loss) and loss > 1 for loss in logged)
    seen = followed(home, "hides")
    assert [math.isnan(loss) for loss in seen.column("losses/loss")] == [False] * 3 + [True] * 3
    # What the Trainer says is a curve of its own, beside the measured one.
    assert [value for _, value in seen.curve("train/loss")] == logged
    diagnosed = ntstop("diagnose", "hides", "--json")
    assert diagnosed.returncode == 1
    findings = {finding["kind"]: finding for finding in json.loads(diagnosed.stdout)["findings"]}
    assert findings["nonfinite-loss"]["severity"] == "critical"
    assert findings["nonfinite-loss"]["first_step"] == 4


def test_loader_workers_forked_under_way_end_although_they_run_finalizers(home: Path) -> None:
    script = """
        import gc, weakref, ntstop_probe
        ntstop_probe.watch(model, optimizer)

        class Data(torch.utils.data.Dataset):
            def __len__(self): return 64
            def __getitem__(self, index):
                if index % 8 == 0: gc.collect()
                return torch.ones(8)

        def worker(index):
            from ntstop_probe import core
            for inherited in core._inherited:
                weakref.finalize(inherited, print, flush=True)
            gc.collect()

        train([torch.ones(4, 8)] * 50)
        for persistent in (False, True):
            loader = torch.utils.data.DataLoader(
                Data(), batch_size=8, num_workers=2, worker_init_fn=worker, persistent_workers=persistent)
            for _ in range(2):
                train(loader)
        del loader
        gc.collect()
        print("done")
    """
    with running(script, prelude="import warnings; warnings.simplefilter('ignore')\n" + TORCH) as job:
        out, err = job.communicate(timeout=60)
    assert (job.returncode, out.split()[-1], err) == (0, "done", "")


def test_a_socket_that_cannot_be_bound_keeps_no_training_from_starting(home: Path) -> None:
    """No port is fixed; and where not even a socket of our own can be had, the recording is made all the same."""
    busy = """
import zmq
def bind(self, *args, **kwargs):
    raise zmq.ZMQError(zmq.EADDRINUSE)
zmq.Socket.bind = bind
"""
    train = "train([torch.ones(4, 8)] * 20)"
    with (
        running(train, prelude=busy + TORCH, environment=launched(NTSTOP_RUN_ID="first")) as first,
        running(train, prelude=TORCH, environment=launched(NTSTOP_RUN_ID="second")) as second,
    ):
        said_first, said_second = first.communicate(timeout=60)[1], second.communicate(timeout=60)[1]
    assert (first.returncode, second.returncode, complaints(said_second)) == (0, 0, [])
    (complaint,) = complaints(said_first)
    assert "Address already in use" in complaint
    assert [len(followed(home, name).column("t")) for name in ("first", "second")] == [20, 20]


def test_the_end_of_a_loader_and_an_evaluation_are_no_fetches_and_no_transfer_is_made_up(home: Path) -> None:
    """The last `next()` takes long, and so does each fetch of the evaluation; batches are moved before the forward."""
    script = """
        class Stream(torch.utils.data.IterableDataset):
            def __init__(self, each, last): self.each, self.last = each, last
            def __iter__(self):
                for _ in range(16):
                    time.sleep(self.each)
                    yield torch.ones(8)
                time.sleep(self.last)

        training = torch.utils.data.DataLoader(Stream(0.0, 1.0), batch_size=4)
        evaluation = torch.utils.data.DataLoader(Stream(0.05, 0.0), batch_size=4)
        for _ in range(2):
            train(batch.to("cpu", non_blocking=True) for batch in training)
            with torch.no_grad():
                for batch in evaluation: model(batch)
    """
    done = run(script, prelude=TORCH, environment=launched(NTSTOP_RUN_ID="fetches"))
    assert done.returncode == 0, done.stderr
    seen = followed(home, "fetches")
    assert len(seen.column("t")) == 8
    assert sum(seen.column("phases/data")) < 0.8
    assert sum(value or 0.0 for value in seen.column("phases/eval")) >= 0.8
    # What was not measured is absent: there is no transfer of zero seconds.
    phases = {name for block in seen.blocks for name in block.phases}
    assert phases <= {"data", "forward", "backward", "optimizer", "other", "eval"}
    assert json.loads(ntstop("diagnose", "fetches", "--json").stdout)["run"]["last_step"] is not None
    assert "transfer" not in ntstop("fetches").stdout


@pytest.mark.parametrize(("fused", "unscale"), [(False, False), (False, True), (True, False)])
def test_the_gradient_norm_does_not_jump_when_the_loss_scale_is_raised(fused: bool, unscale: bool) -> None:
    model = mlp()
    model.eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=3)
    inputs, targets = data(8).tensors
    with armed(budget=1.0) as seen:
        for _ in range(13):
            optimizer.zero_grad()
            scaler.scale(torch.nn.functional.mse_loss(model(inputs), targets)).backward()
            if unscale:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
            scaler.step(optimizer)
            scaler.update()
        steps = seen.steps
    assert steps[-1].loss_scale == 2.0**14
    norms = [step.grad_norm for step in steps if step.grad_norm is not None]
    assert len(norms) >= 3
    assert norms == pytest.approx([norms[0]] * len(norms), rel=1e-5)


def test_the_exception_of_a_spawned_rank_ends_the_job(home: Path, tmp_path: Path) -> None:
    path = script_file(
        tmp_path,
        """
        import time
        import ntstop_probe
        import torch

        def rank(index):
            ntstop_probe.watch()
            if index == 1:
                raise ValueError("rank 1 has no data")
            time.sleep(600)

        if __name__ == "__main__":
            ntstop_probe.watch()
            torch.multiprocessing.spawn(rank, nprocs=2)
        """,
    )
    job = subprocess.run(
        [sys.executable, path], env=launched(NTSTOP_RUN_ID="spawned"), capture_output=True, text=True, timeout=60
    )
    assert job.returncode == 1
    assert "ProcessRaisedException" in job.stderr and "rank 1 has no data" in job.stderr
