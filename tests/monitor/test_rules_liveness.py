"""Alive or not: stalls by phase and progress, exits by record, deaths by evidence."""

from __future__ import annotations

import pytest

from ntstop.diagnosis.finding import Finding
from ntstop_probe import wire

from .records import Script, descent, diagnose, hello, kinds, only, schema, weighty


def start(steps: int = 50) -> Script:
    return Script().add(hello(), schema()).steps(descent(400)[:steps])


@pytest.mark.parametrize(
    ("phase", "where"),
    [
        ("data", "data"),
        ("forward", "forward"),
        ("input+forward", "forward"),
        ("backward", "backward"),
        ("optimizer", "optimizer"),
        ("collective", "collective"),
        ("other", "host"),
    ],
)
def test_step_that_hangs_is_a_stall_of_its_phase(phase: str, where: str) -> None:
    finding = only(diagnose(start().waits(30, phase).records), "stall")
    assert (finding.where, finding.first_step, finding.severity, finding.status) == (where, 50, "critical", "open")
    assert finding.failure_mode == "pipeline" and finding.evidence[0].unit == "s"


def test_stall_shows_the_stack_of_the_training_thread() -> None:
    stack = wire.Stack("MainThread", ["main (train.py:10)", "next (loader.py:5)", "get (queue.py:1)"])
    finding = only(diagnose(start().waits(30, "data", stacks=[stack]).records), "stall")
    assert any("get (queue.py:1) ← next (loader.py:5)" in item.text for item in finding.evidence)


@pytest.mark.parametrize(
    "frame",
    [
        "save (torch/serialization.py:966)",
        "Trainer._save_checkpoint (transformers/trainer.py:3100)",
        "save_file (safetensors/torch.py:286)",
        "estimate_loss (train.py:215)",
        "main.<locals>.evaluate (train.py:40)",
        "test (main.py:52)",
    ],
)
def test_checkpoint_or_evaluation_that_only_the_stack_shows_is_no_stall_of_seconds(frame: str) -> None:
    stack = wire.Stack("MainThread", ["main (train.py:10)", frame, "write (io.py:1)"])
    script = start().waits(5, "other").waits(60, "other", stacks=[stack]).waits(60, "other")
    assert kinds(diagnose(script.records)) == []
    hours = script.waits(3000, "other", stacks=[stack])
    assert only(diagnose(hours.records), "stall").where in ("checkpoint", "eval")


@pytest.mark.parametrize("frame", ["step (saver.py:1)", "testing (x.py:1)", "train_and_test (x.py:1)", "Safe.go (x:1)"])
def test_other_names_in_a_stack_do_not_hide_a_stall(frame: str) -> None:
    stack = wire.Stack("MainThread", ["main (train.py:10)", frame])
    assert only(diagnose(start().waits(30, "other", stacks=[stack]).records), "stall").where == "host"


def test_hang_after_an_unannounced_checkpoint_counts_from_its_end() -> None:
    saving = wire.Stack("MainThread", ["main (train.py:10)", "save (torch/serialization.py:966)"])
    other = wire.Stack("MainThread", ["main (train.py:11)", "upload (train.py:90)"])
    script = start()
    began = script.t
    script.waits(25, "other", stacks=[saving])
    for second in range(26, 51):
        beat = wire.Heartbeat(
            t=began + second, wall=0.0, phase="other", age=float(second), ordinal=script.ordinal, stacks=[other]
        )
        script.add(beat)
        assert (kinds(diagnose(script.records)) == ["stall"]) == (second > 45)


def test_stall_that_ends_is_resolved_and_stays_a_warning() -> None:
    finding = only(diagnose(start().waits(45, "data").steps(descent(400)[50:60]).records), "stall")
    assert (finding.status, finding.severity, finding.first_step) == ("resolved", "warning", 50)
    assert "45 s" in finding.symptom


def test_stall_that_ends_with_the_process_stays_open_and_critical() -> None:
    engine = diagnose(start().waits(45, "data").event("exit", code=None).records)
    finding = only(engine, "stall")
    assert (finding.status, finding.severity) == ("open", "critical")
    assert finding.evidence[-1].text == "then the process exited"
    assert kinds(engine) == ["stall", "exited"]


def test_stall_that_a_new_attempt_took_over_is_resolved() -> None:
    engine = diagnose(start().waits(45, "data").records)
    engine.process_gone(1, "no process 1 on host")
    diagnose(Script(ordinal=50).add(hello(attempt=1)).steps(descent(400)[50:60]).records, writer=2, engine=engine)
    assert only(engine, "stall").status == "resolved"


def test_nineteen_seconds_are_no_stall() -> None:
    assert kinds(diagnose(start().waits(19, "data").steps(descent(400)[50:60]).records)) == []


@pytest.mark.parametrize(("phase", "seconds"), [("eval", 600), ("checkpoint", 600), ("idle", 3000)])
def test_evaluation_checkpoint_and_the_end_may_take_long(phase: str, seconds: float) -> None:
    assert kinds(diagnose(start().waits(seconds, phase).records)) == []


def test_checkpoint_that_takes_an_hour_is_a_stall() -> None:
    finding = only(diagnose(start().waits(3600, "checkpoint").records), "stall")
    assert finding.where == "checkpoint"


def test_slow_first_step_is_no_stall() -> None:
    script = Script().add(hello(), schema()).waits(300, "forward").steps(descent(100))
    assert kinds(diagnose(script.records)) == []


def test_waiting_for_torch_is_no_stall() -> None:
    script = Script().add(hello()).waits(2000, "start", reason="torch not imported")
    assert kinds(diagnose(script.records)) == []


def test_slow_steps_have_a_wider_limit() -> None:
    def slow(seconds: float) -> Script:
        return Script(step_time=5.0).add(hello(), schema()).steps(descent(400)[:50]).waits(seconds, "forward")

    assert kinds(diagnose(slow(99).records)) == []
    assert kinds(diagnose(slow(102).records)) == ["stall"]


def test_stopped_process_is_a_stall_of_the_host_even_when_it_was_in_data() -> None:
    script = start().stopped(60, "data").steps(descent(400)[50:100])
    finding = only(diagnose(script.records), "stall")
    assert (finding.where, finding.status, finding.severity) == ("host", "resolved", "warning")
    assert "did not run" in finding.symptom


def test_a_process_that_loads_its_checkpoint_with_the_lock_held_was_not_stopped() -> None:
    script = Script().add(hello(), schema()).waits(5, "start").stopped(90, "start").steps(descent(400)[:50])
    assert kinds(diagnose(script.records)) == []


def test_second_stall_is_a_finding_of_its_own() -> None:
    script = start().waits(30, "data").steps(descent(400)[50:100]).waits(60, "backward")
    stalls = [finding for finding in diagnose(script.records).findings if finding.kind == "stall"]
    assert [(finding.where, finding.status) for finding in stalls] == [("backward", "open"), ("data", "resolved")]


def test_clean_exit_is_a_note_and_a_failed_one_is_critical() -> None:
    assert only(diagnose(start().event("exit", code=0).records), "exited").severity == "info"
    raised = start().event("exception", "ValueError: x", where="main (train.py:7)").event("exit", code=None)
    failed = only(diagnose(raised.records), "exited")
    assert failed.symptom == "the process ended after step 49 with ValueError: x"
    assert failed.evidence[-1].text == "exception: ValueError: x, in main (train.py:7)"
    assert failed.severity == "critical" and any("ValueError: x" in item.text for item in failed.evidence)
    assert only(diagnose(start().event("exit", code=3).records), "exited").severity == "critical"


def ended(code: int | None, total: int | None) -> Finding:
    script = Script().add(hello(total_steps=total)).steps(descent(400)[:50]).event("exit", code=code)
    return only(diagnose(script.records), "exited")


@pytest.mark.parametrize(("code", "status"), [(None, "exit code unknown"), (0, "exit code 0")])
def test_an_end_before_the_last_step_is_told_with_the_numbers_and_not_as_the_end_of_training(
    code: int | None, status: str
) -> None:
    """A Python process does not know its exit code: without these steps sys.exit(3) would look like a success."""
    finding = ended(code, 300)
    assert finding.severity == "info", "it may have been meant to stop there"
    assert finding.symptom == f"the process ended after step 49 of 300, {status}"
    assert finding.claim.hypothesis.startswith("It stopped before its last step")
    assert finding.claim.confidence.startswith("medium") and "job's output" in finding.claim.fix


def test_an_end_of_which_nothing_tells_how_many_steps_there_were_to_be_is_left_open() -> None:
    finding = ended(None, None)
    assert finding.symptom == "the process ended after step 49" and "job's output" in finding.claim.fix
    assert "medium on why" in finding.claim.confidence


@pytest.mark.parametrize(("code", "total"), [(None, 50), (None, 49), (0, 50), (0, None)])
def test_an_end_after_the_last_step_is_that_of_training(code: int | None, total: int | None) -> None:
    finding = ended(code, total)
    assert (finding.symptom, finding.claim.fix) == ("the process ended after step 49", "Nothing to do.")
    assert finding.claim.confidence.startswith("high")


def test_interrupted_run_is_a_note() -> None:
    script = start().event("exception", "KeyboardInterrupt: ", where="main (train.py:7)").event("exit", code=None)
    finding = only(diagnose(script.records), "exited")
    assert finding.severity == "info" and finding.symptom.endswith("with KeyboardInterrupt")
    assert finding.evidence[-1].text == "exception: KeyboardInterrupt, in main (train.py:7)"


def test_a_process_that_raised_and_was_killed_before_its_exit_record_died_of_the_exception() -> None:
    engine = diagnose(start().event("exception", "ValueError: x").records)
    engine.process_gone(1, "it raised ValueError: x, and pid 1 is gone")
    finding = only(engine, "died")
    assert finding.symptom == "the process is gone after step 49 with ValueError: x"
    assert finding.evidence[-1].text == "exception: ValueError: x"


def test_a_process_that_never_made_a_step_has_no_step_to_die_after() -> None:
    engine = diagnose([hello()])
    engine.process_gone(1, "no process 1 on host")
    assert only(engine, "died").symptom == "the process is gone before its first step, without an exit record"


def test_gone_process_has_died_and_the_evidence_says_how_that_is_known() -> None:
    engine = diagnose(start().records)
    engine.process_gone(1, "no process 1 on host")
    finding = only(engine, "died")
    assert (finding.severity, finding.first_step) == ("critical", 49)
    assert finding.evidence[0].text == "no process 1 on host"
    engine.process_gone(1, "no process 1 on host")
    assert kinds(engine) == ["died"]


def test_process_that_said_goodbye_has_not_died() -> None:
    engine = diagnose(start().event("exit", code=0).records)
    engine.process_gone(1, "no process 1 on host")
    assert kinds(engine) == ["exited"]


@pytest.mark.parametrize("late", [False, True], ids=["seen before the next attempt", "seen after it"])
def test_death_that_a_new_attempt_took_over_is_resolved_whenever_it_is_seen(late: bool) -> None:
    engine = diagnose(start().records)
    if not late:
        engine.process_gone(1, "no process 1 on host")
    again = Script(ordinal=50).add(hello(attempt=1)).steps(descent(400)[50:100])
    diagnose(again.records, writer=2, engine=engine)
    if late:
        engine.process_gone(1, "no process 1 on host")
    finding = only(engine, "died")
    assert (finding.first_step, finding.status, finding.severity) == (49, "resolved", "warning")
    assert weighty(engine) == ["died"]
