"""The overview as text: what a pipe gets must be true of the run as it is now."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import msgspec

from ntstop.plain import overview
from ntstop.session import Session
from ntstop_probe.wire import Heartbeat, ProbeStatus, Scalars

from ..helpers import wait_until
from .writer import EPOCH, Writer, column, steps


def shown(writer: Writer) -> dict[str, str]:
    """The lines of the overview by their first word."""
    session = Session(writer.run)
    session.load()
    lines = overview(session).splitlines()
    return {"headline": lines[0], **{line.split(None, 1)[0]: line.split(None, 1)[-1] for line in lines[1:]}}


def beat(
    writer: Writer, *, age: float, phase: str = "data", reason: str = "", status: ProbeStatus | None = None
) -> None:
    now = time.time()
    writer.send(Heartbeat(EPOCH + 99, now, phase, age, 100, [], status or ProbeStatus(), reason))


def test_a_live_run_has_a_rate_and_a_time_left(job: subprocess.Popen[bytes]) -> None:
    writer = Writer(pid=job.pid)
    writer.train(0, 100)
    beat(writer, age=0.1, status=ProbeStatus(share=0.004, setup=0.25))
    assert shown(writer)["steps"] == "last 99 of 1,000, 10.0/s, 1m 30s to go, probe 0.4% and 250 ms once"


def test_a_phase_that_does_not_end_is_told_in_place_of_a_rate(job: subprocess.Popen[bytes]) -> None:
    writer = Writer(pid=job.pid)
    writer.train(0, 100)
    beat(writer, age=52.0)
    assert shown(writer)["steps"] == "last 99 of 1,000, in data for 52.0 s"


def test_a_stopped_run_has_no_time_left(job: subprocess.Popen[bytes]) -> None:
    writer = Writer(pid=job.pid)
    writer.train(0, 100)
    beat(writer, age=0.1)
    os.kill(job.pid, signal.SIGSTOP)
    wait_until(lambda: shown(writer)["state"].startswith("stopped"))
    assert shown(writer)["steps"] == "last 99 of 1,000, 10.0/s"


def test_a_run_without_steps_says_why_and_for_how_long(job: subprocess.Popen[bytes]) -> None:
    writer = Writer(pid=job.pid)
    beat(writer, age=38.0, phase="start", reason="no backward pass yet")
    assert shown(writer)["steps"] == "none yet, in start for 38.0 s: no backward pass yet"


def test_later_attempts_are_counted_and_lie_on_the_same_steps() -> None:
    for attempt in range(2):
        writer = Writer(attempt=attempt)
        writer.train(0, 40)
    lines = shown(writer)
    assert lines["headline"].endswith("· attempt 2")
    curve = lines["loss"].split()[-1]
    assert list(curve) == sorted(curve), "the loss of both attempts is their step"


def test_a_constant_rate_is_a_flat_line() -> None:
    writer = Writer()
    for first in range(0, 310, 10):
        writer.send(msgspec.structs.replace(steps(first, [1.0] * 10), lrs={"lr": column("f8", [3e-3] * 10)}))
    assert set(shown(writer)["lr"].split()[-1]) == {"▅"}


def test_the_step_time_is_not_that_of_one_step_with_an_evaluation() -> None:
    writer = Writer()
    writer.train(0, 100)
    writer.send(msgspec.structs.replace(steps(100, [1.0]), duration=column("f4", [5.0])))
    told = shown(writer)["step_time"]
    assert told.startswith("100 ms") and told.endswith("median of the newest 64 steps")


def test_the_shares_of_the_phases_are_those_of_the_whole_run_and_not_of_its_last_step() -> None:
    writer = Writer()
    writer.train(0, 8990)
    evaluated = {"data": column("f4", [0.01]), "forward": column("f4", [0.09]), "eval": column("f4", [100.0])}
    writer.send(msgspec.structs.replace(steps(8990, [1.0]), phases=evaluated))
    assert shown(writer)["phases"] == "data 9.0%, forward 81%, eval 10%, over the whole run"


def test_a_loss_that_is_the_mean_of_micro_batches_says_so() -> None:
    writer = Writer()
    writer.send(msgspec.structs.replace(steps(0, [1.0] * 10), micro=column("i4", [4] * 10)))
    assert shown(writer)["loss"].endswith("mean of 4 backward passes a step")


def test_a_job_that_logs_a_name_for_every_step_is_shown_in_a_few_lines_and_little_memory() -> None:
    writer = Writer()
    names = 3000
    for number in range(names):
        writer.send(Scalars(EPOCH + number, number, number, {f"loss at step {number}": 1.0}))
    session = Session(writer.run)
    session.load()
    lines = overview(session).splitlines()
    assert len(lines) < 100
    assert f"and {names - 50:,} more curves" in "\n".join(lines)
    process = session.state.primary
    assert process is not None
    assert sum(series.nbytes for series in process.series.values()) < names * 2048
