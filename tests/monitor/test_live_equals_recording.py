"""One real training, diagnosed three times: while it runs, after it has ended, and by the command."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from ntstop.diagnosis.finding import Finding
from ntstop.session import Session
from ntstop.sources.runs import scan
from tests.helpers import wait_until

JOB = """
import sys, time
import torch
from torch.utils.data import DataLoader, TensorDataset
import ntstop_probe

torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
held = model.parameters() if sys.argv[1] != "frozen" else [p.detach().clone() for p in model.parameters()]
optimizer = torch.optim.SGD(held, lr=1e-3)
ntstop_probe.watch(model, optimizer)
data = torch.randn(400 * 8, 16)
step = 0
for (x,) in DataLoader(TensorDataset(data), batch_size=8):
    if sys.argv[1] == "nan" and step == 120:
        x = x * float("nan")
    optimizer.zero_grad()
    model(x).pow(2).mean().backward()
    optimizer.step()
    step += 1
    time.sleep(0.002)
print("trained", flush=True)
sys.stdin.read()
"""

Key = tuple[str, int | None, str, int | None]


def keys(findings: list[Finding]) -> set[Key]:
    return {(f.kind, f.rank, f.where, f.first_step) for f in findings}


@pytest.mark.parametrize(
    ("fault", "kind", "first_step"), [("nan", "nonfinite-loss", 120), ("frozen", "params-not-updating", None)]
)
def test_a_live_run_and_its_recording_have_the_same_findings(
    fault: str, kind: str, first_step: int | None, home: Path
) -> None:
    command = [sys.executable, "-c", textwrap.dedent(JOB), fault]
    job = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        entry = wait_until(lambda: next((e for e in scan() if e.processes), None), what="the run's folder")
        with Session(entry.path) as live:

            def steps_read() -> int:
                with live.lock:
                    primary = live.state.primary
                    return primary.series["loss"].count if primary and "loss" in primary.series else 0

            # The last step is open until the job ends.
            wait_until(lambda: steps_read() >= 399, what="the live curve")
            with live.lock:
                seen = keys(list(live.findings))
            assert job.stdin is not None and job.poll() is None
            job.communicate(timeout=30)
            assert live.wait_for_end(20)
            with live.lock:
                at_the_end = keys(list(live.findings))
    finally:
        job.kill()
        job.communicate()

    recorded = Session(entry.path)
    recorded.load()
    assert keys(list(recorded.findings)) == at_the_end
    assert kind in {key[0] for key in seen} and seen <= at_the_end
    if first_step is not None:
        assert {key[3] for key in seen if key[0] == kind} == {first_step}

    told = subprocess.run(
        [sys.executable, "-m", "ntstop", "diagnose", str(entry.path), "--json"], capture_output=True, text=True
    )
    printed = json.loads(told.stdout)["findings"]
    assert {(f["kind"], f["rank"], f["where"], f["first_step"]) for f in printed} == at_the_end
    assert told.returncode == 1
