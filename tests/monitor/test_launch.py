"""`ntstop run`: the command is the command, with the probe's boot folder in front of its PYTHONPATH."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ntstop import launch
from ntstop_probe import registry
from tests.helpers import wait_until

NTSTOP = str(Path(sys.executable).parent / "ntstop")


def ntstop_run(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run `ntstop run WORDS` to its end."""
    command = [NTSTOP, "run", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, **options)  # type: ignore[call-overload, no-any-return]


# --- the environment ---------------------------------------------------------------------------------------------


def test_the_boot_folder_comes_before_what_was_there() -> None:
    environment = launch.launch_environment({"PYTHONPATH": "/a:/b"}, ["x"], None, None)
    assert environment["PYTHONPATH"] == f"{launch.boot_folder()}:/a:/b"


def test_an_empty_search_path_does_not_put_the_working_folder_on_it() -> None:
    assert launch.launch_environment({"PYTHONPATH": ""}, ["x"], None, None)["PYTHONPATH"] == str(launch.boot_folder())


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "train.py", "--lr", "1"], "train"),
        (["torchrun", "--nproc-per-node", "2", "jobs/pre train.py"], "pre-train"),
        (["python", "-m", "pkg.fit"], "fit"),
        (["/usr/bin/bash", "-c", "true"], "bash"),
    ],
)
def test_a_fresh_id_says_what_runs(command: list[str], name: str) -> None:
    run = launch.fresh_run_id(command)
    assert run.rpartition("-")[0] == name
    assert run == registry.safe_name(run)


def test_an_id_given_from_outside_holds_unless_named() -> None:
    inherited = {"NTSTOP_RUN_ID": "many-nodes"}
    assert launch.launch_environment(inherited, ["x"], None, None)["NTSTOP_RUN_ID"] == "many-nodes"
    assert launch.launch_environment(inherited, ["x"], "mine", None)["NTSTOP_RUN_ID"] == "mine"


def test_a_relative_home_means_the_same_place_to_a_job_that_changes_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NTSTOP_HOME", "here")
    assert launch.launch_environment({"NTSTOP_HOME": "here"}, ["x"], None, None)["NTSTOP_HOME"] == f"{tmp_path}/here"


@pytest.mark.parametrize("variable", ["WORLD_SIZE", "SLURM_STEP_NUM_TASKS"])
def test_one_of_many_makes_up_no_id_of_its_own(variable: str) -> None:
    assert "NTSTOP_RUN_ID" not in launch.launch_environment({variable: "2"}, ["x"], None, None)
    assert "NTSTOP_RUN_ID" in launch.launch_environment({variable: "1"}, ["x"], None, None)


# --- the command is itself -----------------------------------------------------------------------------------------


def test_input_output_and_exit_code_are_the_commands_own() -> None:
    done = ntstop_run("--", "sh", "-c", "cat; echo err >&2; exit 7", input="through\n")
    assert (done.returncode, done.stdout, done.stderr) == (7, "through\n", "err\n")


def test_the_commands_options_are_not_ours() -> None:
    done = ntstop_run("--title", "a title", "--name", "my-run", "sh", "-c", 'echo "$NTSTOP_TITLE|$NTSTOP_RUN_ID|$1"',
                      "sh", "--watch")  # fmt: skip
    assert done.stdout == "a title|my-run|--watch\n"


def test_the_process_that_was_started_is_the_command() -> None:
    job = subprocess.Popen([NTSTOP, "run", "--", "sleep", "60"])
    try:
        wait_until(lambda: Path(f"/proc/{job.pid}/comm").read_text() == "sleep\n", what="the command in our process")
        job.send_signal(signal.SIGUSR1)
        assert job.wait(10) == -signal.SIGUSR1
    finally:
        job.kill()
        job.wait()


def test_a_command_that_does_not_exist_is_one_line_and_127() -> None:
    done = ntstop_run("--", "no-such-command")
    assert (done.returncode, done.stderr) == (127, "ntstop: no-such-command: command not found\n")


def test_an_empty_command_is_one_line_and_127() -> None:
    done = ntstop_run("--", "")
    assert (done.returncode, done.stderr) == (127, "ntstop: '': command not found\n")


def test_a_file_that_cannot_be_executed_is_one_line_and_126(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("x")
    done = ntstop_run("--", str(tmp_path / "data"))
    assert done.returncode == 126
    assert done.stderr == f"ntstop: {tmp_path / 'data'}: Permission denied\n"


def test_an_id_that_is_no_file_name_is_refused() -> None:
    done = ntstop_run("--name", "../up", "--", "true")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def test_without_a_terminal_watch_runs_the_command_alone() -> None:
    done = ntstop_run("--watch", "--", "sh", "-c", "echo out; exit 3", stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (3, "out\n")
    assert len(done.stderr.splitlines()) == 1


# --- beside a viewer -----------------------------------------------------------------------------------------------


def watched(script: str, view: str) -> str:
    """A program that runs `script` in a shell beside a viewer whose code is `view` (it has `folder`)."""
    return f"""
import os, signal, sys, time
from ntstop import launch
def view(folder):
    {view}
environment = launch.launch_environment(os.environ, ["sh"], "watched", None)
sys.exit(launch.run_watched(["sh", "-c", {script!r}], environment, view))
"""


def test_the_output_lies_in_a_file_in_the_run_folder_and_the_code_comes_back(home: Path) -> None:
    program = watched("echo out; echo err >&2; cat; exit 5", "return 0")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, input="not for the job")
    output = home / "runs" / "watched" / launch.OUTPUT_FILE
    assert done.returncode == 5
    assert output.read_text() == "out\nerr\n"
    assert output.stat().st_mode & 0o777 == 0o600
    assert str(output) in done.stdout


def test_an_id_from_outside_that_is_no_file_name_stays_within_the_runs(home: Path) -> None:
    environment = launch.launch_environment({**os.environ, "NTSTOP_RUN_ID": "../../out"}, ["true"], None, None)
    assert launch.run_watched(["true"], environment, lambda folder: 0) == 0
    assert [path.name for path in (home / "runs").iterdir()] == ["out"]


def test_after_the_viewer_the_job_goes_on_and_gets_the_interrupt(home: Path) -> None:
    script = "trap 'echo interrupted; exit 9' INT; echo ready; while :; do sleep 0.05; done"
    output = home / "runs" / "watched" / launch.OUTPUT_FILE

    def listen() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell starts what is in its background deaf to it

    program = [sys.executable, "-c", watched(script, "return 0")]
    job = subprocess.Popen(program, stdout=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=listen)
    try:
        assert job.stdout is not None
        assert "the job goes on" in job.stdout.readline()
        wait_until(lambda: "ready" in output.read_text(), what="the job's trap")
        job.send_signal(signal.SIGINT)
        assert job.wait(10) == 9
        assert "interrupted" in output.read_text()
    finally:
        job.kill()
        job.wait()


def test_a_viewer_that_was_told_to_terminate_passes_it_on() -> None:
    wait = f'while b"ready" not in (folder / "{launch.OUTPUT_FILE}").read_bytes(): time.sleep(0.02)'
    view = f"{wait}\n    return 128 + signal.SIGTERM"
    program = watched("trap 'exit 4' TERM; echo ready; while :; do sleep 0.05; done", view)
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=30).returncode == 4


def test_a_viewer_that_fails_costs_the_job_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", watched("exit 6", "raise ValueError('no screen')")], capture_output=True, text=True
    )
    assert done.returncode == 6
    assert done.stderr == "the viewer failed: no screen\n"


def test_a_job_ended_by_a_signal_gives_the_code_of_a_shell() -> None:
    done = subprocess.run([sys.executable, "-c", watched("kill -9 $$", "return 0")], capture_output=True, timeout=30)
    assert done.returncode == 128 + signal.SIGKILL
