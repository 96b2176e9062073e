"""The engine: one clock, any number of writers, the same findings however the records come."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ntstop.diagnosis.block import StepBlock
from ntstop.diagnosis.engine import Engine
from ntstop.diagnosis.rules import Rule, load
from ntstop_probe import wire

from .records import Script, descent, diagnose, hello, kinds, layers, manifest, only, schema

NAN = math.nan


def eventful(block: int) -> Script:
    """A run with a spike, a hang, a NaN and an exit."""
    curve = descent(600)
    curve[200:206] = [8.0, 7.0, 6.0, 5.0, 4.0, 3.5]
    script = Script(block=block).add(hello(of=manifest(seed=None)), schema()).steps(curve[:300]).waits(40, "data")
    script.steps(curve[300:480])
    script.add(layers(480, script.t, grad_nonfinite=[0, 0, 1, 1], grad_norm=[1.0, 1.0, NAN, NAN]))
    return script.steps([NAN] * 40).event("exit", code=1)


def told(engine: Engine) -> list[tuple[object, ...]]:
    return sorted((f.kind, f.rank, f.where, f.first_step, f.severity, f.status, f.symptom) for f in engine.findings)


def test_encoded_and_decoded_records_give_the_same_findings() -> None:
    records = eventful(8).records
    decoded, skipped = wire.decode_batch(wire.encode_batch(records))
    assert skipped == 0
    assert told(diagnose(decoded)) == told(diagnose(records))
    assert {kind for kind, *_ in told(diagnose(records))} == {
        "loss-spike",
        "stall",
        "nonfinite-loss",
        "exited",
        "unreproducible",
    }


@pytest.mark.parametrize("block", [1, 7, 256])
def test_size_of_the_blocks_does_not_change_the_findings(block: int) -> None:
    assert told(diagnose(eventful(block).records)) == told(diagnose(eventful(8).records))


def test_ids_are_stable_and_say_kind_rank_where_and_step() -> None:
    engine = Engine()
    seen: dict[str, str] = {}
    for record in [hello(rank=3), *eventful(8).records[1:]]:
        engine.observe(1, record)
        for finding in engine.findings:
            assert seen.setdefault(finding.id, finding.kind) == finding.kind
    assert "nonfinite-loss-3-loss-480" in seen and "stall-3-data-300" in seen


def test_ranks_are_judged_apart() -> None:
    engine = Engine()
    diagnose(Script().add(hello(rank=0), schema()).steps(descent(400)).records, writer=10, engine=engine)
    bad = Script().add(hello(rank=1), schema()).steps([*descent(400)[:100], NAN])
    diagnose(bad.records, writer=11, engine=engine)
    assert [(finding.kind, finding.rank) for finding in engine.findings] == [("nonfinite-loss", 1)]


def test_global_steps_are_the_axis_where_they_are_known() -> None:
    script = Script().add(hello(), schema()).steps([*descent(400)[:100], NAN], stride=10).waits(30, "data")
    engine = diagnose(script.records)
    assert only(engine, "nonfinite-loss").first_step == 1000
    assert only(engine, "stall").first_step == 1010


def test_new_attempt_goes_on_with_the_curve_of_the_old_one() -> None:
    engine = diagnose(Script().add(hello(), schema()).steps(descent(400)[:200]).records, writer=1)
    again = Script(ordinal=200).add(hello(attempt=1), schema()).steps([9.0] * 40)
    diagnose(again.records, writer=2, engine=engine)
    finding = only(engine, "resume-discontinuity")
    assert (finding.first_step, finding.explained[0].kind) == (200, "divergence")
    assert (found := engine.hello_of(finding)) is not None and found.attempt == 1


def test_two_processes_without_a_rank_are_not_one() -> None:
    engine = Engine()
    for writer in (1, 2):
        diagnose(Script().add(hello(), schema()).steps(descent(400)).records, writer=writer, engine=engine)
    diagnose([*Script().add(hello()).steps([NAN]).records], writer=3, engine=engine)
    assert kinds(engine) == ["nonfinite-loss"]


def test_unreproducible_is_said_once_a_run_and_lists_what_is_missing() -> None:
    engine = Engine()
    for rank in (0, 1):
        script = Script().add(hello(rank=rank, of=wire.Manifest()), schema()).steps(descent(400)[:50])
        diagnose(script.records, writer=rank + 1, engine=engine)
    finding = only(engine, "unreproducible")
    assert finding.severity == "info" and finding.failure_mode is None
    assert [item.text.split(":")[0] for item in finding.evidence] == [
        "git SHA",
        "seed",
        "config",
        "data hash",
        "versions",
    ]


def test_late_manifest_makes_it_reproducible() -> None:
    script = Script().add(hello(of=manifest(seed=None)), schema()).steps(descent(400)[:50]).add(hello())
    assert only(diagnose(script.records), "unreproducible").status == "resolved"


def test_nothing_is_called_missing_while_git_has_not_answered() -> None:
    waiting = hello(of=manifest(git_sha=None, git_dirty=None, settled=False))
    script = Script().add(waiting, schema()).steps(descent(400)[:50])
    assert not diagnose(script.records).findings
    assert not diagnose([*script.records, hello()]).findings
    in_vain = hello(of=manifest(git_sha=None, git_dirty=None))
    assert only(diagnose([*script.records, in_vain]), "unreproducible").status == "open"


def test_a_tree_with_changes_is_called_that_and_not_unsaid() -> None:
    script = Script().add(hello(of=manifest(git_dirty=True)), schema()).steps(descent(400)[:50])
    claim = only(diagnose(script.records), "unreproducible").claim
    assert [item.text for item in claim.evidence] == ["git: files differed from the commit when the run began"]
    assert "changes that are in no commit" in claim.hypothesis and "did not say" not in claim.hypothesis
    script = Script().add(hello(of=manifest(git_dirty=True, seed=None)), schema()).steps(descent(400)[:50])
    assert "The rest the job did not say" in only(diagnose(script.records), "unreproducible").claim.hypothesis


def test_records_whose_columns_do_not_fit_are_skipped() -> None:
    clock = wire.pack("f8", [1.0])
    assert clock is not None
    torn = wire.Column("f8", b"1234567")
    engine = diagnose(
        [
            hello(),
            schema(),
            wire.Steps(count=2, ordinal=0, t=clock),
            wire.Steps(count=1, ordinal=0, t=torn),
            wire.Steps(count=0, ordinal=0, t=clock),
            wire.Layers(schema=9, ordinal=0, step=None, t=1.0, columns={"grad_norm": clock}),
            wire.Layers(schema=1, ordinal=0, step=None, t=1.0, columns={"grad_norm": clock}),
            wire.Layers(schema=1, ordinal=0, step=None, t=1.0, columns={"grad_norm": torn}),
        ]
    )
    assert kinds(engine) == []


@given(st.lists(st.one_of(st.none(), st.floats()), max_size=120), st.integers(1, 50))
@settings(max_examples=60, deadline=None)
def test_no_loss_curve_makes_a_rule_raise(losses: list[float | None], block: int) -> None:
    script = Script(block=block).add(hello(), schema()).steps(losses, grad_norm=losses)
    diagnose(script.event("exit", code=0).records)


def test_every_rule_is_found_and_takes_every_record() -> None:
    names = [kind.__name__ for kind in load()]
    assert len(names) == len(set(names))
    assert {"NonfiniteRule", "LossCurveRule", "ParamsNotUpdatingRule", "StallRule", "EndRule"} <= set(names)
    assert all(issubclass(kind, Rule) for kind in load())


def test_version_moves_only_with_the_findings() -> None:
    engine = diagnose(Script().add(hello(), schema()).steps(descent(400)).records)
    before = engine.version
    diagnose(Script(ordinal=400).steps([1.5] * 8).records, engine=engine)
    engine.settle()
    assert engine.version == before
    diagnose(Script(ordinal=408).steps([NAN]).records, engine=engine)
    engine.settle()
    assert engine.version > before


def test_spiky_week_keeps_a_readable_number_of_notes() -> None:
    curve = descent(12000, noise=0.01)
    for step in range(200, 12000, 100):
        curve[step : step + 6] = [20.0] * 6
    engine = diagnose(Script(block=256).add(hello(), schema()).steps(curve).records)
    assert kinds(engine).count("loss-spike") <= 21


class Broken(Rule):
    """A rule with a fault of its own, from step 50 on."""

    def steps(self, block: StepBlock) -> None:
        if block.x[-1] > 50:
            raise KeyError("layer")


def test_a_rule_that_fails_is_switched_off_and_said_and_the_others_go_on() -> None:
    engine = Engine([Broken, *load()])
    script = Script().add(hello(), schema()).steps(descent(200)[:120]).steps([math.nan] * 40)
    for record in script.records:
        engine.observe(1, record)
    assert list(engine.failed) == ["Broken"] and "KeyError: 'layer'" in engine.failed["Broken"]
    assert only(engine, "nonfinite-loss").first_step == 120


RISING = [3.0 - 0.01 * step for step in range(100)] + [3.0 + 0.5 * step for step in range(60)]


def ranks(*curves: list[float], turn: int = 4) -> Engine:
    """Every curve is a rank's; they take turns of some steps. An empty one tells its name and no more."""
    engine = Engine()
    scripts = [Script(block=turn).add(hello(rank=number)).steps(curve).records for number, curve in enumerate(curves)]
    for place in range(max(map(len, scripts))):
        for number, records in enumerate(scripts):
            if place < len(records):
                engine.observe(number + 1, records[place])
    engine.settle()
    return engine


def where(engine: Engine, kind: str) -> list[int | None]:
    return [finding.rank for finding in engine.findings if finding.kind == kind]


def test_replicas_tell_one_story_and_it_is_told_of_rank_0() -> None:
    assert where(ranks(RISING, RISING, RISING), "divergence") == [0]


def test_a_nan_of_any_rank_is_told_of_that_rank() -> None:
    assert where(ranks([1.0] * 21, [*([1.0] * 20), NAN]), "nonfinite-loss") == [1]


def test_where_rank_0_has_no_loss_the_others_are_judged_by_all_rules() -> None:
    assert where(ranks([], RISING), "divergence") == [1]
