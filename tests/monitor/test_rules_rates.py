"""The learning rate as a suspect: schedules that end early, leaps, resumes that begin anew, and logs that lie."""

from __future__ import annotations

import math

from ntstop_probe import wire

from .records import Script, descent, diagnose, hello, kinds, only, schema, weighty


def start(**options: int) -> Script:
    return Script().add(hello(**options), schema())  # type: ignore[arg-type]


def linear(steps: int, end: int, peak: float = 1e-3) -> list[float]:
    return [peak * max(0.0, 1.0 - step / end) for step in range(steps)]


def test_a_schedule_that_ends_before_the_run_is_named_with_the_step_and_the_rate_to_try() -> None:
    finding = only(diagnose(start().steps(descent(1200), rate=linear(1200, 400)).records), "lr-zero")
    assert (finding.severity, finding.status, finding.first_step, finding.last_step) == ("warning", "open", 400, 1199)
    assert "since step 400" in finding.symptom and "800 steps" in finding.symptom
    assert "0.0001" in finding.claim.fix and finding.claim.open_questions == [
        "How many steps was this run meant to have?"
    ]


def test_a_schedule_that_ends_with_the_run_is_none() -> None:
    assert "lr-zero" not in kinds(diagnose(start().steps(descent(1200), rate=linear(1200, 1199)).records))
    planned = start(total_steps=1200).steps(descent(1300), rate=linear(1300, 1200))
    assert "lr-zero" not in kinds(diagnose(planned.records))


def test_a_rate_of_zero_that_rises_again_is_over() -> None:
    script = start().steps(descent(600), rate=linear(600, 200)).steps(descent(100), rate=1e-3)
    assert only(diagnose(script.records), "lr-zero").status == "resolved"


def test_the_zero_at_the_start_of_a_warm_up_is_none() -> None:
    rates = [1e-3 * min(1.0, step / 300) for step in range(600)]
    assert weighty(diagnose(start().steps(descent(600), rate=rates).records)) == []


def test_a_leap_off_a_schedule_is_a_warning() -> None:
    rates = [1e-3 * 0.999**step * (10 if step >= 300 else 1) for step in range(400)]
    finding = only(diagnose(start().steps(descent(400), rate=rates).records), "lr-jump")
    assert (finding.severity, finding.first_step, finding.where) == ("warning", 300, "lr")
    assert "×9.99" in finding.symptom


def test_a_warm_up_in_stages_is_only_noted() -> None:
    rates = [1e-6] * 200 + [2e-4] * 200
    finding = only(diagnose(start().steps(descent(400), rate=rates).records), "lr-jump")
    assert finding.severity == "info"


def test_restarts_of_a_cosine_are_no_leap() -> None:
    rates = [1e-3 * (0.01 + 0.5 * (1 + math.cos(math.pi * (step % 200) / 200))) for step in range(800)]
    assert "lr-jump" not in kinds(diagnose(start().steps(descent(800), rate=rates).records))


def test_a_resume_that_starts_the_schedule_anew_is_named() -> None:
    decay = [1e-2 * 0.99**step for step in range(400)]
    script = start().steps(descent(400), rate=decay)
    script.add(wire.Event(t=script.t, kind="load", text="checkpoint.pt", ordinal=400))
    told = diagnose(script.steps(descent(100), rate=decay[:100]).records).findings
    (finding,) = [one for card in told for one in (card, *card.explained) if one.kind == "lr-jump"]
    assert (finding.where, finding.area, finding.first_step) == ("resume", "checkpoint/recovery", 400)


def test_a_resume_that_keeps_its_schedule_is_quiet() -> None:
    decay = [1e-2 * 0.99**step for step in range(500)]
    script = start().steps(descent(400), rate=decay[:400])
    script.add(wire.Event(t=script.t, kind="load", text="checkpoint.pt", ordinal=400))
    assert "lr-jump" not in kinds(diagnose(script.steps(descent(100), rate=decay[400:]).records))


def test_a_file_that_is_loaded_during_the_warm_up_is_no_resume() -> None:
    rates = [1e-5 * (step + 1) for step in range(400)]
    script = start().steps(descent(400)[:100], rate=rates[:100])
    script.add(wire.Event(t=script.t, kind="load", text="shard.pt", ordinal=100))
    assert "lr-jump" not in kinds(diagnose(script.steps(descent(400)[100:], rate=rates[100:]).records))


def logged(value: float) -> Script:
    script = start()
    for _ in range(10):
        script.add(wire.Scalars(t=script.t, step=script.ordinal, ordinal=script.ordinal, values={"train/lr": value}))
        script.steps(descent(400)[script.ordinal : script.ordinal + 10], rate=1e-2)
    return script


def test_a_logged_rate_that_is_not_the_real_one_is_named_with_both() -> None:
    finding = only(diagnose(logged(1e-3).records), "lr-jump")
    assert (finding.where, finding.severity) == ("train/lr", "warning")
    assert "10 times the logged one" in finding.symptom


def test_a_logged_rate_that_is_the_real_one_is_quiet() -> None:
    assert "lr-jump" not in kinds(diagnose(logged(1e-2).records))
