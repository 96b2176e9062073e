"""Half precision and the loop around it: the loss scale, rounding, evaluation mode, steps that never come."""

from __future__ import annotations

import math

import pytest

from ntstop_probe import wire

from .records import Script, beat, descent, diagnose, hello, kinds, layers, manifest, only, schema, weighty, wobble

NAN = math.nan


def start(**options: str) -> Script:
    return Script().add(hello(), schema(**options))  # type: ignore[arg-type]


def scaled(*skips: tuple[int, int], scale: float = 65536.0) -> Script:
    """(steps, skipped or not) one after the other; each skip halves the scale."""
    script = start()
    for count, skipped in skips:
        scales = [scale * 0.5 ** (step if skipped else 0) for step in range(count)]
        scale = scales[-1]
        script.steps(descent(400)[:count], loss_scale=scales, skipped=[skipped] * count)
    return script


def test_a_scale_that_falls_to_its_floor_is_critical_from_its_first_skip() -> None:
    finding = only(diagnose(scaled((150, 0), (100, 1)).records), "loss-scale-collapse")
    assert (finding.severity, finding.status, finding.first_step) == ("critical", "open", 150)
    assert finding.symptom.startswith("100 steps in a row were skipped") and "0/0" in finding.claim.hypothesis


def test_a_scale_that_finds_a_level_again_is_over() -> None:
    finding = only(diagnose(scaled((150, 0), (8, 1), (60, 0)).records), "loss-scale-collapse")
    assert (finding.severity, finding.status) == ("warning", "resolved")


@pytest.mark.parametrize(
    "skips", [((16, 1), (200, 0)), ((100, 0), (1, 1), (100, 0), (2, 1), (100, 0))], ids=["start", "now and then"]
)
def test_a_scale_at_work_is_no_collapse(skips: tuple[tuple[int, int], ...]) -> None:
    assert weighty(diagnose(scaled(*skips).records)) == []


def test_a_scale_that_sinks_by_single_halvings_is_a_warning() -> None:
    script = scaled(*[(21, 0), (2, 1)] * 10, (40, 0))
    assert only(diagnose(script.records), "loss-scale-collapse").severity == "warning"


def stuck(dtype: str, unchanged: float, losses: list[float]) -> Script:
    script = start(dtype=dtype)
    for step, loss in enumerate(losses):
        if step in (2, 8):
            script.add(layers(step, script.t, param_norm=[1.0 + step] * 4, grad_norm=[1.0] * 4,
                              unchanged=[unchanged] * 4, update_ratio=[2e-5] * 4))  # fmt: skip
        script.steps([loss], rate=1e-4)
    return script


FLAT = [2.3 + 0.01 * wobble(step) for step in range(120)]


def test_half_precision_weights_that_stay_are_named_with_their_dtype() -> None:
    finding = only(diagnose(stuck("bfloat16", 0.99, FLAT).records), "update-underflow")
    assert finding.severity == "warning" and "99.0% of the bfloat16 weights" in finding.symptom


def test_weights_that_mostly_stay_while_the_loss_falls_are_only_noted() -> None:
    finding = only(diagnose(stuck("bfloat16", 0.93, descent(120)).records), "update-underflow")
    assert finding.severity == "info"


@pytest.mark.parametrize(("dtype", "unchanged"), [("float32", 0.99), ("bfloat16", 0.5)])
def test_weights_that_move_or_have_all_their_bits_are_quiet(dtype: str, unchanged: float) -> None:
    assert "update-underflow" not in kinds(diagnose(stuck(dtype, unchanged, FLAT).records))


def test_evaluation_mode_needs_several_looks_in_a_row() -> None:
    script = start().steps(descent(240))
    script.add(beat(script.t, 240, looks=2, eval_looks=2, eval_since=200, sensitive=3))
    assert "eval-mode-training" not in kinds(diagnose(script.records))
    script.add(beat(script.t + 1, 250, looks=3, eval_looks=3, eval_since=200, sensitive=3))
    finding = only(diagnose(script.records), "eval-mode-training")
    assert (finding.severity, finding.first_step) == ("warning", 200)
    script.add(beat(script.t + 2, 260, looks=2, eval_looks=0, eval_since=None, sensitive=3))
    assert only(diagnose(script.records), "eval-mode-training").status == "resolved"


def test_evaluation_mode_that_changes_nothing_is_only_noted() -> None:
    script = start().steps(descent(240))
    script.add(beat(script.t, 240, looks=4, eval_looks=4, eval_since=0, sensitive=0))
    assert only(diagnose(script.records), "eval-mode-training").severity == "info"


def test_backwards_without_a_step_are_named_with_their_number() -> None:
    script = Script().add(hello(), beat(101.0, 0, backwards=898))
    finding = only(diagnose(script.records), "params-not-updating")
    assert (finding.where, finding.severity) == ("optimizer step", "warning")
    assert finding.symptom == "898 backward passes since the start, and not one optimizer step"


def test_a_long_accumulation_is_not_a_missing_step() -> None:
    script = start().steps(descent(40), micro=128, optimizers=1, zero_grads=1)
    assert kinds(diagnose(script.add(beat(script.t, 40, backwards=600)).records)) == []


def test_a_step_that_comes_after_all_ends_it() -> None:
    script = Script().add(hello(), beat(101.0, 0, backwards=300)).steps(descent(40))
    assert only(diagnose(script.records), "params-not-updating").status == "resolved"


def test_a_loss_that_is_a_mean_over_nothing_is_told_by_its_zero_gradient() -> None:
    script = start().steps(descent(200)[:120])
    script.add(layers(120, script.t, grad_norm=[0.0] * 4, grad_nonfinite=[0] * 4))
    finding = only(diagnose(script.steps([NAN, *descent(200)[121:]]).records), "nonfinite-loss")
    assert "every label of the batch is ignored" in finding.claim.hypothesis and finding.status == "resolved"


def test_weights_that_were_bad_before_the_loss_blame_the_step_before() -> None:
    script = start().steps(descent(200)[:151])
    script.add(layers(151, script.t, param_norm=[NAN] * 4, grad_norm=[NAN] * 4))
    finding = only(diagnose(script.steps([NAN] * 20).records), "nonfinite-grad")
    assert (finding.first_step, [symptom.kind for symptom in finding.explained]) == (150, ["nonfinite-loss"])
    assert "step 150 wrote a nonfinite gradient" in finding.symptom


def test_format_batch_scale_and_checkpoint_stand_on_the_card_of_a_nan() -> None:
    script = Script().add(hello(of=manifest(precision="float32, autocast float16")), schema())
    script.steps(descent(200)[:100], loss_scale=1024.0, skipped=[0] * 100)
    script.add(wire.Event(t=script.t, kind="checkpoint", text="last.pt", ordinal=99))
    claim = only(diagnose(script.steps([math.inf] * 4, loss_scale=1024.0).records), "nonfinite-loss").claim
    texts = [item.text for item in claim.evidence]
    assert "computed in float32, autocast float16" in texts and "loss scale 1,024" in texts
    assert "65,504" in claim.hypothesis and "the checkpoint of step 99 (last.pt)" in claim.fix
