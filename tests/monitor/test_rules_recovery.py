"""Going on after a stop, and checkpoints that stop coming, from records."""

from __future__ import annotations

import math

import pytest

from ntstop.diagnosis.engine import Engine

from .records import Script, descent, diagnose, hello, kinds, only, schema, weighty


def curve(count: int = 1200) -> list[float]:
    return descent(count, end=0.8)


def resumed(first: list[float], then: list[float], *, at: int | None = None, numbered: bool = True) -> Engine:
    """Two attempts; the second begins at the step `at`, by default where the first stopped."""
    stride = 1 if numbered else None
    script = Script().add(hello(), schema()).steps(first, stride=stride)
    for ordinal in range(99, len(first), 100):
        script.add(*Script(t=script.t, ordinal=ordinal).event("checkpoint", f"c{ordinal}.pt").records)
    engine = diagnose(script.records)
    again = Script(ordinal=len(first) if at is None else at, t=500.0).add(hello(attempt=1), schema())
    again.steps(then, stride=stride)
    return diagnose(again.records, writer=2, engine=engine)


def test_resume_that_goes_on_as_before_raises_nothing() -> None:
    assert kinds(resumed(curve()[:600], curve()[600:800])) == []


def test_resume_with_a_worse_loss_says_what_it_was_and_what_it_is() -> None:
    worse = [loss + 1.5 * math.exp(-step / 200) for step, loss in enumerate(curve()[600:])]
    finding = only(resumed(curve()[:600], worse), "resume-discontinuity")
    assert (finding.severity, finding.first_step, finding.area) == ("warning", 600, "checkpoint/recovery")
    assert [item.text.split(":")[0] for item in finding.evidence[:3]] == ["before", "at", "after"]


def test_going_back_to_the_newest_checkpoint_is_a_note_and_to_an_older_one_a_warning() -> None:
    newest = only(resumed(curve()[:650], curve()[600:], at=600), "step-rewind")
    assert newest.severity == "info" and "50 steps are made again" in newest.symptom
    older = only(resumed(curve()[:650], curve()[300:], at=300), "step-rewind")
    assert older.severity == "warning" and "350 steps" in older.symptom
    assert kinds(resumed(curve()[:650], curve()[300:500], at=300)) == ["step-rewind"]


def test_attempt_that_began_anew_is_known_by_its_loss_where_steps_have_no_numbers() -> None:
    finding = only(resumed(curve()[:600], curve(), at=0, numbered=False), "step-rewind")
    assert finding.severity == "warning" and "began anew" in finding.symptom
    assert kinds(resumed(curve()[:600], curve()[600:800], at=0, numbered=False)) == []


def saved(gaps: list[int], after: int) -> Engine:
    script = Script().add(hello(), schema())
    losses = curve(sum(gaps) + after)
    for gap in gaps:
        script.steps(losses[script.ordinal : script.ordinal + gap]).event("checkpoint", "c.pt")
    return diagnose(script.steps(losses[script.ordinal :]).records)


@pytest.mark.parametrize(
    ("gaps", "after", "said"),
    [([100] * 5, 200, []), ([100] * 5, 400, ["warning"]), ([100, 10, 300], 950, ["info"]), ([100], 900, [])],
    ids=["on time", "overdue", "never regular", "only one"],
)
def test_checkpoints_that_stop_coming(gaps: list[int], after: int, said: list[str]) -> None:
    engine = saved(gaps, after)
    assert [finding.severity for finding in engine.findings if finding.kind == "checkpoint-stale"] == said


def test_checkpoint_that_comes_late_resolves_it() -> None:
    finding = only(saved([100] * 5 + [500, 100], 50), "checkpoint-stale")
    assert finding.status == "resolved" and weighty(saved([100] * 5 + [500, 100], 50)) == []
