"""Numeric anomalies: which number broke first, at which step, in which layer; and what is not said besides."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ntstop.diagnosis.evidence import point
from ntstop.diagnosis.finding import Finding

from .records import NAMES, Script, descent, diagnose, hello, kinds, layers, only, schema, weighty

NAN, INF = math.nan, math.inf


def start() -> Script:
    return Script().add(hello(), schema())


def bad_from(index: int, count: int = len(NAMES)) -> list[float]:
    return [1.0 if position < index else NAN for position in range(count)]


def test_nan_loss_is_critical_with_its_step_its_layer_and_its_trajectory() -> None:
    script = start().steps(descent(200)[:120], grad_norm=[1.0] * 120)
    script.add(layers(120, script.t, grad_norm=bad_from(1), grad_nonfinite=[0, 1, 1, 1]))
    engine = diagnose(script.steps([NAN] * 80, grad_norm=[NAN] * 80).records)
    assert kinds(engine) == ["nonfinite-loss"]
    finding = only(engine, "nonfinite-loss")
    assert (finding.severity, finding.status, finding.first_step, finding.last_step) == ("critical", "open", 120, 199)
    assert finding.symptom == (
        "loss is NaN from step 120 on; first layer block.0.weight; 80 nonfinite values up to step 199"
    )
    texts = [item.text for item in finding.evidence]
    assert texts[3].startswith("before: loss") and "at step 119" in texts[3]
    assert texts[4] == "at: loss NaN at step 120"
    assert sum(text.startswith("after: ") for text in texts) == 4
    assert any("3 of 4 layers at step 120: block.0.weight" in text for text in texts)


def test_nan_raises_no_spike_and_no_plateau_besides() -> None:
    curve = descent(300)
    curve[200:210] = [50.0, NAN, *[60.0] * 8]
    engine = diagnose(start().steps(curve).steps([NAN] * 400).records)
    assert set(kinds(engine)) == {"nonfinite-loss"}


def test_inf_and_nan_are_told_apart() -> None:
    engine = diagnose(start().steps([*descent(50), INF]).records)
    assert "+Inf" in only(engine, "nonfinite-loss").symptom


def test_one_nan_that_passes_is_resolved_and_a_warning() -> None:
    curve = descent(200)
    curve[100] = NAN
    finding = only(diagnose(start().steps(curve).records), "nonfinite-loss")
    assert (finding.status, finding.severity, finding.first_step, finding.last_step) == (
        "resolved",
        "warning",
        100,
        100,
    )


def test_gradient_that_breaks_under_a_finite_loss_is_named_by_its_first_layer() -> None:
    script = start().steps(descent(200)[:60], grad_norm=[1.0] * 60)
    script.add(layers(60, script.t, grad_norm=bad_from(2), grad_nonfinite=[0, 0, 1, 1]))
    engine = diagnose(script.steps([2.0, NAN, NAN], grad_norm=[INF, NAN, NAN]).records)
    grad = only(engine, "nonfinite-grad")
    (loss,) = grad.explained
    assert (grad.first_step, grad.where, grad.severity) == (60, "block.1.weight", "critical")
    assert "+Inf" in grad.symptom
    assert (loss.kind, loss.first_step) == ("nonfinite-loss", 61) and "gradient at step 60" in loss.claim.hypothesis


def test_layers_alone_show_a_nonfinite_gradient() -> None:
    script = start().steps(descent(200)[:60])
    script.add(layers(60, script.t, grad_norm=bad_from(3), grad_nonfinite=[0, 0, 0, 1]))
    finding = only(diagnose(script.steps(descent(200)[60:90]).records), "nonfinite-grad")
    assert (finding.where, finding.first_step) == ("head.weight", 60)


def test_weights_that_are_nonfinite_before_their_update_name_the_layer_that_was_written_to() -> None:
    script = start().steps(descent(200)[:120])
    script.add(layers(120, script.t, grad_nonfinite=[1, 1, 1, 1], param_norm=[1.0, 1.0, NAN, 1.0]))
    engine = diagnose(script.steps([NAN] * 20).records)
    finding = only(engine, "nonfinite-grad")
    assert (finding.where, finding.first_step, kinds(engine)[0]) == (NAMES[2], 119, "nonfinite-grad")
    assert f"into {NAMES[2]}, while" in finding.symptom
    assert any("weights nonfinite in 1 of 4 layers before the update of step 120" in i.text for i in finding.evidence)


def all_written(clip: float | None, norms: Sequence[Sequence[float]] = ()) -> Finding:
    """The weights of all layers are nonfinite before the update of step 120; `norms` were sampled before."""
    script = start()
    for row in norms:
        script.steps(descent(200)[:10], clip=clip).add(layers(script.ordinal - 1, script.t, grad_norm=row))
    script.steps(descent(200)[: 120 - script.ordinal], clip=clip)
    script.add(layers(120, script.t, grad_nonfinite=[1] * 4, grad_norm=[NAN] * 4, param_norm=[NAN] * 4))
    return only(diagnose(script.steps([NAN] * 20).records), "nonfinite-grad")


def test_a_gradient_that_clipping_has_spread_over_all_layers_is_laid_to_none() -> None:
    finding = all_written(0.5)
    (loss,) = finding.explained
    assert finding.where == "grad_norm" and "weights of all 4 layers" in finding.symptom
    assert "Clipping spread it" in finding.claim.hypothesis and "acos" in finding.claim.hypothesis
    assert "first layer" not in loss.symptom and not any(name in finding.claim.hypothesis for name in NAMES)


def test_without_clipping_all_layers_at_once_say_that_it_was_made_behind_the_last() -> None:
    hypothesis = all_written(None).claim.hypothesis
    assert f"behind the last of them ({NAMES[-1]}," in hypothesis and "Clipping" not in hypothesis
    script = start().steps(descent(200)[:60])
    script.add(layers(60, script.t, grad_norm=bad_from(0), grad_nonfinite=[1] * 4))
    finding = only(diagnose(script.steps(descent(200)[60:90]).records), "nonfinite-grad")
    assert finding.where == "grad_norm" and "in all 4 layers" in finding.symptom
    assert f"behind the last of them ({NAMES[-1]}," in finding.claim.hypothesis


def test_the_last_sample_before_it_says_which_gradients_had_grown() -> None:
    def told(*norms: Sequence[float]) -> str:
        return next(item.text for item in all_written(0.5, norms).evidence if "last sample before" in item.text)

    calm = [1.0, 1.1, 0.9, 1.0]
    assert told(calm).endswith("step 9")
    assert "step 39, none over 10 times its level" in told(calm, calm, calm, calm)
    assert f"had grown in {NAMES[2]} to 30 times its level" in told(calm, calm, calm, [1.0, 1.1, 27.0, 1.0])


def test_layers_that_come_after_their_step_name_it_too() -> None:
    script = start().steps([*descent(200)[:60], 2.0])
    script.add(layers(60, script.t, grad_nonfinite=[0, 1, 0, 0], grad_norm=[*bad_from(1, 2), 1.0, 1.0]))
    finding = only(diagnose(script.records), "nonfinite-grad")
    assert (finding.where, finding.first_step) == ("block.0.weight", 60)


def test_a_layer_that_is_named_after_the_loss_stands_before_the_count() -> None:
    script = start().steps([*descent(200)[:120], NAN, NAN])
    script.add(layers(120, script.t, grad_nonfinite=[0, 1, 1, 1]))
    symptom = only(diagnose(script.records), "nonfinite-loss").symptom
    assert symptom == "loss is NaN from step 120 on; first layer block.0.weight; 2 nonfinite values up to step 121"


def test_late_sample_says_that_it_is_late() -> None:
    script = start().steps(descent(200)[:120]).steps([NAN] * 8)
    script.add(layers(127, script.t, grad_nonfinite=[1, 1, 1, 1]))
    texts = [item.text for item in only(diagnose(script.records), "nonfinite-loss").evidence]
    assert "7 steps after the first nonfinite number" in texts[-1]


def test_loss_scaling_that_finds_its_level_is_no_anomaly() -> None:
    curve = descent(200)
    norms = [INF if step < 4 or step == 100 else 1.0 for step in range(200)]
    skipped = [int(math.isinf(norm)) for norm in norms]
    script = start().steps(curve, grad_norm=norms, skipped=skipped, loss_scale=65536.0)
    script.add(layers(199, script.t, grad_nonfinite=[1, 1, 1, 1]))
    assert weighty(diagnose(script.records)) == []


def test_each_loss_of_a_step_is_watched() -> None:
    engine = diagnose(start().steps(descent(100), second=[*[1.0] * 50, *[NAN] * 50]).records)
    assert only(engine, "nonfinite-loss").where == "loss/1"


def test_nan_evidence_keeps_its_value() -> None:
    assert math.isnan(point("loss", 3, NAN).value or 0.0)
