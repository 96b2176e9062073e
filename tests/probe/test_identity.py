"""Which run a process belongs to, by what its launcher says and nothing else."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from ntstop_probe import registry
from ntstop_probe.identity import Layout, earlier_attempts, identify, layout_of, run_id

TORCHRUN = {
    "RANK": "1",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_RESTART_COUNT": "0",
    "MASTER_ADDR": "node1",
    "MASTER_PORT": "29500",
}


def run_of(environment: dict[str, str], script: str = "train") -> str:
    return run_id(environment, layout_of(environment), script)


def test_a_run_id_that_was_given_is_used_as_a_safe_file_name() -> None:
    assert run_of({"NTSTOP_RUN_ID": "my-run"}) == "my-run"
    assert run_of({"NTSTOP_RUN_ID": "../../etc/passwd"}) == "etc-passwd"
    assert run_of({**TORCHRUN, "NTSTOP_RUN_ID": "my-run"}) == "my-run"


def test_a_single_process_gets_a_readable_name_of_its_own() -> None:
    first, second = run_of({}), run_of({"WORLD_SIZE": "1", "RANK": "0", "MASTER_ADDR": "x"})
    assert re.fullmatch(r"train-\d{8}-\d{6}-[0-9a-f]{4}", first)
    assert first != second


@pytest.mark.parametrize(
    ("shared", "other"),
    [
        ({"TORCHELASTIC_RUN_ID": "job-7"}, {"TORCHELASTIC_RUN_ID": "job-8"}),
        ({"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0"}, {"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "1"}),
        ({"MASTER_ADDR": "node1"}, {"MASTER_ADDR": "node2"}),
        ({"MASTER_PORT": "29500"}, {"MASTER_PORT": "29501"}),
    ],
)
def test_all_ranks_of_a_world_agree_on_the_run_and_another_world_does_not(
    shared: dict[str, str], other: dict[str, str]
) -> None:
    ranks = {run_of({**TORCHRUN, **shared, "RANK": str(rank)}) for rank in range(4)}
    assert len(ranks) == 1
    assert ranks != {run_of({**TORCHRUN, **other})}
    assert next(iter(ranks)).startswith("train-")


def test_a_rendezvous_id_outlives_the_master_that_torchrun_elects_anew_after_a_failure() -> None:
    elastic = {**TORCHRUN, "TORCHELASTIC_RUN_ID": "job-7"}
    assert run_of(elastic) == run_of({**elastic, "MASTER_ADDR": "node9", "MASTER_PORT": "41234"})
    slurm = {**TORCHRUN, "SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0"}
    assert run_of(slurm) == run_of({**slurm, "MASTER_ADDR": "node9", "SLURM_RESTART_COUNT": "2"})


def test_two_runs_on_torchruns_default_port_of_one_node_are_told_apart_by_their_agent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one_node = {**TORCHRUN, "LOCAL_WORLD_SIZE": "4"}
    monkeypatch.setattr(os, "getppid", lambda: 1)
    first = run_of(one_node)
    monkeypatch.setattr(os, "getppid", os.getpid)
    assert run_of(one_node) != first
    assert run_of(TORCHRUN) == run_of(TORCHRUN), "over several nodes the agents differ, and are left out"


def test_a_world_that_says_nothing_of_itself_has_random_runs() -> None:
    assert run_of({"RANK": "0", "WORLD_SIZE": "2"}) != run_of({"RANK": "0", "WORLD_SIZE": "2"})


def test_the_layout_is_read_from_torchrun_or_from_a_slurm_step_of_several_tasks() -> None:
    assert layout_of(TORCHRUN) == Layout(1, 4, 1, 2, 0, "torchrun")
    step = {"SLURM_STEP_NUM_TASKS": "8", "SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_RESTART_COUNT": "2"}
    assert layout_of(step) == Layout(5, 8, 1, None, 2, "slurm")
    # In a batch script SLURM_PROCID is 0 and SLURM_NTASKS 8, though only one process runs.
    assert layout_of({"SLURM_NTASKS": "8", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}) == Layout()
    assert layout_of({"RANK": "two", "WORLD_SIZE": ""}) == Layout()


def announce(run: Path, name: str, *, rank: int | None, pid: int, training: bool = True) -> None:
    folder = run / name
    folder.mkdir(parents=True)
    info = registry.ProcessInfo(
        protocol=1,
        run=run.name,
        folder=name,
        writer=1,
        host="here",
        boot=registry.boot_id(),
        pid_namespace=registry.pid_namespace(),
        pid=pid,
        started=registry.process_start_time(pid) or 1.0,
        wall=time.time(),
        rank=rank,
        training=training,
    )
    registry.write_process_info(folder, info)


def test_an_attempt_counts_the_processes_of_its_rank_that_trained_before_and_are_gone(tmp_path: Path) -> None:
    gone = 2**22 + 1
    assert earlier_attempts(tmp_path / "run", 0) == 0
    announce(tmp_path / "run", "a", rank=0, pid=gone)
    announce(tmp_path / "run", "b", rank=1, pid=gone)
    announce(tmp_path / "run", "c", rank=0, pid=os.getpid())
    announce(tmp_path / "run", "d", rank=0, pid=gone, training=False)
    (tmp_path / "run" / "e").mkdir()
    (tmp_path / "run" / "f").mkdir()
    (tmp_path / "run" / "f" / registry.PROCESS_FILE).write_text("{")
    assert earlier_attempts(tmp_path / "run", 0) == 1
    assert earlier_attempts(tmp_path / "run", None) == 0


def test_a_restart_of_the_launchers_is_a_new_attempt_of_the_same_run(home: Path) -> None:
    first = identify({**TORCHRUN, "TORCHELASTIC_RUN_ID": "job-7"})
    again = identify({**TORCHRUN, "TORCHELASTIC_RUN_ID": "job-7", "TORCHELASTIC_RESTART_COUNT": "2"})
    assert (first.run, first.attempt, again.attempt) == (again.run, 0, 2)
    assert first.writer != again.writer
    assert first.folder.is_relative_to(home / "runs" / first.run)
    assert not home.exists(), "asking who we are makes no folders"
