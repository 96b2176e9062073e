"""A job that a signal holds: told while it stands, and afterwards as its records tell it."""

from __future__ import annotations

import json
import os
import signal
import subprocess

from ntstop.session import Session

from ..helpers import wait_until
from .records import Script, descent, diagnose, hello, kinds, only, schema
from .test_cli import learn, ntstop
from .writer import Writer

WHY = "pid 1 is stopped (SIGSTOP or ctrl-z), last heard 3 s ago"


def start() -> Script:
    return Script().add(hello(), schema()).steps(descent(400)[:50])


def test_a_stopped_process_is_told_at_once_with_what_makes_it_go_on() -> None:
    engine = diagnose(start().records)
    engine.process_stopped(1, WHY)
    finding = only(engine, "stall")
    assert (finding.where, finding.first_step, finding.severity, finding.status) == ("host", 50, "critical", "open")
    assert "kill -CONT 1`" in finding.claim.fix and finding.evidence[0].text == WHY


def test_looking_again_says_since_when_and_nothing_twice() -> None:
    engine = diagnose(start().records)
    engine.process_stopped(1, WHY)
    engine.process_stopped(1, WHY.replace("3 s", "90 s"))
    assert "90 s ago" in only(engine, "stall").evidence[0].text


def test_a_stop_of_seconds_is_nothing_afterwards_as_in_a_replay() -> None:
    script = start()
    engine = diagnose(script.records)
    engine.process_stopped(1, WHY)
    later = Script(t=script.t + 6, ordinal=50).steps(descent(400)[50:100])
    assert kinds(diagnose(later.records, engine=engine)) == []


def test_a_long_stop_is_the_same_finding_as_in_a_replay() -> None:
    script = start()
    engine = diagnose(script.records)
    seen = len(script.records)
    engine.process_stopped(1, WHY)
    script.stopped(60).steps(descent(400)[50:100])
    live = only(diagnose(script.records[seen:], engine=engine), "stall")
    replayed = only(diagnose(script.records), "stall")
    assert (live.id, live.symptom, live.severity, live.status) == (
        replayed.id,
        replayed.symptom,
        replayed.severity,
        replayed.status,
    )


def test_a_stall_before_the_stop_is_kept_beside_it() -> None:
    engine = diagnose(start().waits(30, "data").records)
    engine.process_stopped(1, WHY)
    assert sorted((f.where, f.status) for f in engine.findings) == [("data", "resolved"), ("host", "open")]


def test_a_job_killed_while_it_stood_is_dead_and_no_longer_stopped() -> None:
    engine = diagnose(start().records)
    engine.process_stopped(1, WHY)
    engine.process_gone(1, "pid 1 is gone")
    assert kinds(engine) == ["died"]


def test_a_rank_that_has_gone_on_in_a_new_attempt_is_not_told_for_the_old_one() -> None:
    engine = diagnose(start().records)
    diagnose(Script(ordinal=50).add(hello(attempt=1)).steps(descent(400)[50:60]).records, writer=2, engine=engine)
    engine.process_stopped(1, WHY)
    assert kinds(engine) == []


def test_diagnose_of_a_stopped_job_says_so_and_exits_1(job: subprocess.Popen[bytes]) -> None:
    writer = Writer(pid=job.pid)
    learn(writer, 50)
    writer.beat(50)
    assert ntstop("diagnose", "run-1").returncode == 0
    os.kill(job.pid, signal.SIGSTOP)
    done = ntstop("diagnose", "run-1", "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["run"]["state"]) == (1, "stopped")
    worst = report["findings"][0]
    assert (worst["kind"], worst["where"]) == ("stall", "host")
    assert f"`kill -CONT {job.pid}`" in worst["fix"]


def test_a_viewer_sees_a_job_stop_and_go_on(job: subprocess.Popen[bytes]) -> None:
    writer = Writer(pid=job.pid)
    learn(writer, 50)
    writer.beat(50)

    def told() -> bool:
        with session.lock:
            return any(finding.kind == "stall" for finding in session.findings)

    with Session("run-1") as session:
        assert session.wait_for_end()
        os.kill(job.pid, signal.SIGSTOP)
        wait_until(told)
        os.kill(job.pid, signal.SIGCONT)
        wait_until(lambda: session.entry is not None and session.entry.state == "live")
        writer.beat(55)
        wait_until(lambda: session.wait_for_end() and not told())
