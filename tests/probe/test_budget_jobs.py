"""The budget in a process of its own: what is set, what is said, and what the recording tells of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ntstop_probe.settings import as_share, settings_of
from ntstop_probe.values import Unusable
from ntstop_probe.wire import Event, Heartbeat, Steps, unpack

from .jobs import TORCH, launched, run
from .reading import process_folders, records

SHORT = """
train(torch.randn(4, 8) for _ in range(4_000))
"""


@pytest.mark.parametrize("bad", ["lots", "0"])
def test_a_budget_that_is_none_is_said_once_and_the_job_runs_with_the_default(home: Path, bad: str) -> None:
    job = run(SHORT.replace("4_000", "20"), prelude=TORCH, environment=launched(NTSTOP_BUDGET=bad))
    assert job.returncode == 0
    lines = [line for line in job.stderr.splitlines() if "NTSTOP_BUDGET" in line]
    assert len(lines) == 1, job.stderr
    [folder] = process_folders(home)
    assert sum(len(unpack(item.t)) for item in records(folder) if isinstance(item, Steps)) == 20


@pytest.mark.parametrize("bad", ["-1", "nan", "7", "", -0.1, 0, float("inf"), "1%"])
def test_a_budget_is_a_share_above_0_and_at_most_1(bad: object) -> None:
    with pytest.raises(Unusable):
        as_share(bad)
    assert settings_of({"NTSTOP_BUDGET": str(bad)}).budget == 0.01
    assert settings_of({"NTSTOP_BUDGET": "0.02"}).budget == 0.02
    assert settings_of({"NTSTOP_BUDGET": "0.02"}, budget=0.5).budget == 0.5


def test_steps_far_shorter_than_the_budget_allows_are_thinned_with_every_loss_kept(home: Path) -> None:
    job = run(SHORT, prelude=TORCH, environment=launched(NTSTOP_BUDGET="0.02"))
    assert job.returncode == 0, job.stderr
    [folder] = process_folders(home)
    found = records(folder)
    sampling = [item for item in found if isinstance(item, Event) and item.kind == "sampling"]
    tiers = [event.data["tier"] for event in sampling]
    assert "timing thinned" in tiers
    steps = [item for item in found if isinstance(item, Steps)]
    last = tiers[-1]
    if last != "disarmed":
        assert sum(item.count for item in steps) == 4_000
    losses = [value for item in steps for value in unpack(item.losses["loss"])]
    durations = [value for item in steps if item.duration is not None for value in unpack(item.duration)]
    assert None not in losses
    timed = [value for value in durations if value is not None]
    assert 0 < len(timed) < len(losses) / 2
    beat = [item for item in found if isinstance(item, Heartbeat)][-1]
    assert beat.probe.tier == last
    assert beat.probe.timing_interval == sampling[-1].data["timing"]
