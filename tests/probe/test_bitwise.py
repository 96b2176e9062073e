"""The probe changes nothing: weights, losses and the state of the random numbers are the same, bit for bit."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).with_name("digest.py")
STEPS = {"plain": 60, "workers": 60, "dropout": 60, "accumulation": 15, "clip": 60, "scaler": 60}


def start(mode: str, cases: str, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(SCRIPT), mode, cases, *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def results(process: subprocess.Popen[str]) -> dict[str, dict[str, Any]]:
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    return {found["case"]: found for found in map(json.loads, out.splitlines())}


def test_one_process_with_workers_dropout_accumulation_clipping_and_a_gradient_scaler() -> None:
    processes = [start(mode, ",".join(STEPS)) for mode in ("bare", "armed")]
    bare, armed = (results(process) for process in processes)
    assert {case: found["digest"] for case, found in armed.items()} == {
        case: found["digest"] for case, found in bare.items()
    }
    assert {case: found["steps"] for case, found in armed.items()} == STEPS
    assert all(found["layers"] >= 5 and found["disabled"] == [] for found in armed.values())
    assert armed["scaler"]["skipped"] > 0


def test_two_ranks_of_ddp_over_gloo() -> None:
    digests = {}
    for mode in ("bare", "armed"):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        ranks = [start(mode, "ddp", port, str(rank)) for rank in range(2)]
        found = [results(rank)["ddp"] for rank in ranks]
        digests[mode] = [rank["digest"] for rank in found]
    assert digests["armed"] == digests["bare"]
    assert [rank["steps"] for rank in found] == [60, 60]
