"""Logs of other tools on the command line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .logs import EVENTS, GOLDEN


def ntstop(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ntstop", *arguments], input=text, capture_output=True, text=True, timeout=60
    )


def test_a_log_is_shown_and_diagnosed_like_a_run(tmp_path: Path) -> None:
    log = tmp_path / "log"
    shutil.copy(EVENTS, log)
    os.utime(log, (1e9, 1e9))
    shown = ntstop(str(log))
    assert shown.returncode == 0 and "TensorBoard events" in shown.stdout and "nonfinite-loss" in shown.stdout
    done = ntstop("diagnose", "--json", str(log))
    report = json.loads(done.stdout)
    assert done.returncode == 1
    assert (report["run"]["source"], report["run"]["state"]) == ("log", "quiet")
    assert [finding["kind"] for finding in report["findings"]] == ["nonfinite-loss"]


def test_a_healthy_log_has_nothing_to_say() -> None:
    done = ntstop("diagnose", str(GOLDEN / "lightning-metrics.csv"))
    assert done.returncode == 0 and "nothing found" in done.stdout


def test_of_a_folder_with_several_logs_each_is_diagnosed_and_the_newest_shown(tmp_path: Path) -> None:
    for number, name in enumerate("ab"):
        (tmp_path / name).mkdir()
        copy = shutil.copy(EVENTS, tmp_path / name)
        os.utime(copy, (1e9 + number, 1e9 + number))
    reports = ntstop("diagnose", "--json", str(tmp_path)).stdout.splitlines()
    assert [json.loads(report)["run"]["id"] for report in reports] == ["b", "a"]
    shown = ntstop(str(tmp_path))
    assert shown.stdout.startswith("b\n") and "2 logs are there" in shown.stderr


def test_two_tables_of_one_folder_are_two_runs(tmp_path: Path) -> None:
    for number, name in enumerate(("a.csv", "b.csv", "notes.csv")):
        rows = "step,loss\n1,3\n2,2\n3,1\n" if name != "notes.csv" else "who,pages\nme,3\nyou,4\n"
        (tmp_path / name).write_text(rows)
        os.utime(tmp_path / name, (1e9 + number, 1e9 + number))
    reports = ntstop("diagnose", "--json", str(tmp_path)).stdout.splitlines()
    assert [json.loads(report)["target"].rpartition("/")[2] for report in reports] == ["b.csv", "a.csv"]


def test_roles_and_a_pattern_on_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("(1) J=3.5\n(2) J=2.5\n")
    assert ntstop(str(path)).returncode == 2
    done = ntstop(str(path), "--pattern", r"\((?P<step>\d+)\) J=(?P<J>\S+)", "--role", "J=train_loss")
    assert done.returncode == 0 and "loss = J" in done.stdout and "last 2" in done.stdout
    before = ntstop("--role=J=train_loss", "--pattern", r"\((?P<step>\d+)\) J=(?P<J>\S+)", str(path))
    assert before.stdout == done.stdout


def test_what_a_program_prints_into_a_pipe() -> None:
    done = ntstop("-", text="hello\nstep 1 loss 3\nstep 2 loss nan\n")
    assert done.returncode == 0 and "last 2" in done.stdout and "nonfinite-loss" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [["{tmp}/empty"], ["{tmp}/absent.csv"], ["diagnose", "{tmp}/empty"], ["{events}", "--role", "x"],
     ["{events}", "--role", "x=y"], ["{events}", "--pattern", "("], ["{events}", "--pattern", "x"],
     ["{tmp}"]],
)  # fmt: skip
def test_bad_input_is_one_line_and_exit_code_2(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    done = ntstop(*(argument.format(tmp=tmp_path, events=EVENTS) for argument in arguments))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("ntstop: ")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"step,loss\n1,3\n2,3e\n3,1\n", "1 line or entry could not be read"),
        (b"step,loss\n1,3\n2," + b"9" * 2_000_000 + b"\n3,1\n", "1 line or entry could not be read"),
        (b'{"step": 1, "loss": 3}\n{"step": 2, "loss": 2}\n{"step": 3, "lo', "1 line or entry could not be read"),
        (EVENTS.read_bytes()[:400] + b"x" + EVENTS.read_bytes()[401:], "damaged stretches left out: 1"),
    ],
    ids=["number", "long line", "cut off", "checksum"],
)
def test_what_a_diagnosis_could_not_read_is_said_beside_it(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)
    os.utime(path, (1e9, 1e9))
    done = ntstop("diagnose", str(path))
    assert done.returncode in (0, 1) and done.stderr == f"ntstop: {path}: {says}\n"


def test_a_text_with_a_hole_of_zeros_is_read_around_it(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(b"step 1 loss 3\nstep 2 loss 2.5\n" + b"\x00" * 3_000_000 + b"\nstep 3 loss 2\n")
    done = ntstop(str(path))
    assert done.returncode == 0 and "last 3" in done.stdout and "1 line or entry could not be read" in done.stdout
    path.write_bytes(b"\x00" * 1000 + b"step 1 loss 3\n")
    assert "binary" in ntstop(str(path)).stderr


def test_a_card_of_a_log_does_not_claim_what_only_a_probe_can_know(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    rows = [f"{step},{'nan' if step > 400 else 2.0 - step / 400},{0.0 if step > 100 else 0.01}" for step in range(500)]
    log.write_text("\n".join(["step,loss,lr", *rows]))
    report = json.loads(ntstop("diagnose", "--json", str(log)).stdout)
    sure = {finding["kind"]: finding["confidence"] for finding in report["findings"]}
    assert "logged" in sure["nonfinite-loss"] and "logged" in sure["lr-zero"]
