"""The loss curve as a whole, from records: spikes, divergence, plateau, never learned, parameters that stand still."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from ntstop.diagnosis.engine import Engine
from ntstop_probe import wire

from .records import Script, descent, diagnose, hello, kinds, layers, manifest, only, schema, weighty, wobble


def start(total_steps: int | None = None) -> Script:
    return Script().add(hello(total_steps=total_steps), schema())


def flat(level: float, count: int, noise: float = 0.02) -> list[float]:
    return [level * (1 + noise * wobble(step)) for step in range(count)]


@pytest.mark.parametrize("noise", [0.0, 0.03, 0.2])
def test_healthy_run_raises_nothing(noise: float) -> None:
    norms = [1.0 + 0.3 * wobble(step) for step in range(2000)]
    script = start(2000).steps(descent(2000, noise=noise), grad_norm=norms)
    assert kinds(diagnose(script.records)) == []


def test_spike_that_recovers_is_a_note_with_its_trajectory() -> None:
    curve = descent(400)
    curve[200:206] = [8.0, 7.0, 6.0, 5.0, 4.0, 3.5]
    finding = only(diagnose(start().steps(curve).records), "loss-spike")
    assert (finding.severity, finding.status, finding.first_step) == ("info", "resolved", 200)
    assert "recovered" in finding.symptom and "to 8 at step 200" in finding.symptom
    assert [item.text.split(":")[0] for item in finding.evidence[:6]] == ["before"] * 4 + ["at", "after"]


def test_spike_that_lingers_is_a_warning() -> None:
    engine = diagnose(start().steps(descent(2000)[:1500]).steps(flat(2.2, 50)).records)
    finding = only(engine, "loss-spike")
    assert (finding.severity, finding.status) == ("warning", "open") and "lingering" in finding.symptom


def thrown_off(count: int, back: bool) -> list[float]:
    """A descent, a batch of a hundred times its loss, and from the start again; or it stays there."""
    learned = descent(300, start=2.3, end=0.5)
    return [*learned, 60.0, *(learned[:count] if back else [2.2 + 0.05 * wobble(step) for step in range(count)])]


def test_an_outlier_that_the_weights_recover_from_is_a_spike_that_lingers_and_no_divergence() -> None:
    during = diagnose(start().steps(thrown_off(30, back=True)).records)
    assert kinds(during) == ["loss-spike"] and only(during, "loss-spike").severity == "warning"
    after = diagnose(start().steps(thrown_off(300, back=True)).records)
    assert kinds(after) == ["loss-spike"] and only(after, "loss-spike").status == "resolved"
    stays = diagnose(start().steps(thrown_off(400, back=False)).records)
    assert only(stays, "divergence").first_step in range(295, 306)


def test_divergence_is_critical_names_the_jump_of_the_rate_and_folds_the_spike() -> None:
    script = start().steps(descent(400)[:150], rate=1e-3).steps(flat(7.0, 100, 0.1), rate=0.1)
    engine = diagnose(script.records)
    assert weighty(engine) == ["lr-jump"] and "loss-spike" not in kinds(engine)
    finding = next(symptom for symptom in only(engine, "lr-jump").explained if symptom.kind == "divergence")
    assert (finding.severity, finding.first_step, finding.failure_mode) == ("critical", 150, "optimization")
    assert "from 0.001 to 0.1 at step 150" in finding.claim.hypothesis


def test_explosion_began_where_the_spike_did_and_is_over_where_the_loss_is_below_again() -> None:
    curve = descent(600, end=0.5)
    curve[300:330] = [40.0 - step if step < 5 else 36.0 + 0.3 * step for step in range(30)]
    finding = only(diagnose(start().steps(curve[:340]).records), "divergence")
    assert (finding.severity, finding.first_step) == ("critical", 300)
    over = only(diagnose(start().steps(curve).records), "divergence")
    assert (over.first_step, over.status) == (300, "resolved")
    assert over.symptom.endswith("back below from step 330 on")


def test_what_a_divergence_says_better_is_told_on_its_card_and_weighs_nothing() -> None:
    script = start().steps(descent(400)).steps(flat(1.5, 2400), rate=1e-3)
    assert weighty(diagnose(script.records)) == ["plateau"]
    engine = diagnose(script.steps(flat(30.0, 100)).records)
    told = [(symptom.kind, symptom.first_step, symptom.severity) for symptom in only(engine, "divergence").explained]
    assert kinds(engine) == ["divergence"]
    assert told == [("loss-spike", 2800, "info"), ("plateau", 368, "info")]


def test_what_outlasts_its_cause_is_told_for_itself() -> None:
    script = start().steps(flat(4.6, 1200), rate=0.0)
    assert kinds(diagnose(script.records)) == ["lr-zero"]
    engine = diagnose(script.steps(flat(4.6, 1200), rate=1e-3).records)
    assert only(engine, "lr-zero").status == "resolved" and only(engine, "never-learned").status == "open"


def test_what_came_back_is_not_said_to_stay() -> None:
    script = start().steps(descent(400)[:200]).steps(flat(3.4, 300))
    open_one = only(diagnose(script.records), "divergence")
    assert "lost most of its descent" in open_one.symptom and "back below" not in open_one.symptom
    finding = only(diagnose(script.steps(flat(1.6, 900)).records), "divergence")
    assert finding.status == "resolved" and "back below from step 500" in finding.symptom


def test_what_took_most_of_the_run_to_come_back_to_its_start_is_a_warning_until_something_is_learned() -> None:
    script = (
        Script().add(hello(), schema()).steps([2.7, 28.0, 48.0, 65.0, 56.0, 59.0, *flat(30.0, 400), *flat(2.7, 200)])
    )
    finding = only(diagnose(script.records), "divergence")
    assert (finding.status, finding.severity, finding.first_step) == ("resolved", "warning", 1)
    assert only(diagnose(script.steps(flat(1.5, 200)).records), "divergence").severity == "info"


def test_slow_rise_that_comes_back_is_resolved() -> None:
    script = start().steps(descent(400)[:200]).steps(flat(2.6, 300))
    assert "stayed there" in only(diagnose(script.records), "divergence").symptom
    finding = only(diagnose(script.steps(flat(1.6, 900)).records), "divergence")
    assert finding.status == "resolved" and "it came back by step" in finding.symptom


def test_loss_that_falls_back_and_stays_is_a_warning() -> None:
    engine = diagnose(start().steps(descent(400)[:200]).steps(flat(3.4, 300)).records)
    finding = only(engine, "divergence")
    assert finding.severity == "warning" and abs(finding.first_step - 200) <= 4


def test_planned_restart_of_the_rate_raises_nothing() -> None:
    cosine = [0.5 * (1.0 + math.cos(math.pi * step / 500)) for step in range(500)]
    warm_up = [step / 20 for step in range(20)]
    script = start().steps(descent(520), rate=warm_up + cosine).steps(descent(520, start=4.4), rate=warm_up + cosine)
    assert weighty(diagnose(script.records)) == []


def test_resume_at_a_higher_loss_is_not_a_spike() -> None:
    script = start().steps(descent(400)[:300]).event("resume").steps(flat(2.4, 60))
    assert "loss-spike" not in kinds(diagnose(script.records))


def test_steps_that_are_made_again_are_not_counted_twice() -> None:
    engine = diagnose(start().steps(descent(400)).steps(flat(1.5, 300), rate=1e-3).records)
    again = Script().add(hello(attempt=1), schema()).steps(flat(1.5, 300), rate=1e-3)
    diagnose(again.records, writer=2, engine=engine)
    assert "in 287 steps" in only(engine, "plateau").symptom


def test_plateau_at_a_high_rate_is_a_warning() -> None:
    finding = only(diagnose(start().steps(descent(400)[:300]).steps(flat(1.6, 2500)).records), "plateau")
    assert finding.severity == "warning" and finding.status == "open"
    assert "the rate is 0.001" in finding.symptom
    assert any(item.basis == "estimated" for item in finding.evidence)


@pytest.mark.parametrize(("rate", "total"), [(1e-3, 2850), (None, None)], ids=["end of the run", "rate unknown"])
def test_plateau_that_may_be_the_end_is_a_note(rate: float | None, total: int | None) -> None:
    script = start(total).steps(descent(400)[:300], rate=rate).steps(flat(1.6, 2500), rate=rate)
    assert only(diagnose(script.records), "plateau").severity == "info"


def test_plateau_at_a_decayed_rate_is_a_note() -> None:
    script = start().steps(descent(400)[:300], rate=1e-3).steps(flat(1.6, 2500), rate=2e-5)
    assert only(diagnose(script.records), "plateau").severity == "info"


def test_plateau_that_is_left_is_resolved() -> None:
    script = start().steps(descent(400)[:300]).steps(flat(1.6, 2500)).steps(flat(1.1, 1500))
    finding = only(diagnose(script.records), "plateau")
    assert (finding.status, finding.severity) == ("resolved", "info")
    assert "it moves again by step" in finding.symptom


def test_flat_from_the_start_is_never_learned_and_no_plateau() -> None:
    engine = diagnose(start().steps(flat(4.6, 900)).records)
    assert kinds(engine) == ["never-learned"]
    assert only(engine, "never-learned").severity == "warning"


def test_two_losses_of_a_gan_have_no_level() -> None:
    swings = [1.0 + 0.8 * math.sin(step / 60) + 0.3 * (step > 600) for step in range(1200)]
    script = start().steps(swings, second=[2.5 - value for value in swings])
    assert weighty(diagnose(script.records)) == []


def test_optimizer_that_holds_other_tensors_is_critical_and_folds_never_learned() -> None:
    script = Script().add(hello(), schema(in_optimizer=[False] * 4)).steps(flat(4.6, 900))
    engine = diagnose(script.records)
    assert kinds(engine) == ["params-not-updating"]
    finding = only(engine, "params-not-updating")
    assert (finding.severity, finding.where, finding.first_step) == ("critical", "optimizer", 0)


def test_optimizer_found_later_resolves_it() -> None:
    script = Script().add(hello(), schema(in_optimizer=[False] * 4)).steps(descent(400)[:16])
    engine = diagnose(script.add(schema(id=2)).records)
    assert only(engine, "params-not-updating").status == "resolved"


def test_partly_frozen_model_is_not_reported() -> None:
    held = schema(frozen=[True, True, False, False], in_optimizer=[False, False, True, True])
    assert kinds(diagnose(Script().add(hello(), held).steps(descent(400)).records)) == []


def sampled(norms: float, *, rate: float = 1e-3, grads: bool = True, ratio: float | None = None) -> Engine:
    """Twenty samples of layers whose norms grow by `norms` from one to the next."""
    script = start()
    for index in range(20):
        script.steps(flat(4.6, 16), rate=rate)
        columns: dict[str, list[float | None]] = {"param_norm": [1.0 + index * norms] * 4}
        if grads:
            columns["grad_norm"] = [0.1] * 4
        if ratio is not None:
            columns["update_ratio"] = [ratio] * 4
        script.add(layers(script.ordinal, script.t, **columns))
    return diagnose(script.records)


def test_samples_are_judged_by_the_rate_of_their_own_steps_which_are_told_after_them() -> None:
    """A warm-up that begins with an epoch at rate 0, and a probe that sends the layers of a step before the step."""
    script = start()
    for index in range(40):
        script.add(layers(index, 100.0 + index, param_norm=[1.0] * 4, grad_norm=[0.1] * 4))
    script.steps(flat(4.6, 40), rate=0.0)
    assert kinds(diagnose(script.records)) == []
    for index in range(40, 80):
        script.add(layers(index, 100.0 + index, param_norm=[1.0] * 4, grad_norm=[0.1] * 4))
    script.steps(flat(4.6, 40), rate=2e-3)
    finding = only(diagnose(script.records), "params-not-updating")
    assert finding.first_step == 40 and "at a rate of 0.002 " in finding.symptom


def test_a_loss_that_never_came_down_at_rate_zero_is_laid_to_the_rate() -> None:
    finding = only(diagnose(start().steps(flat(4.6, 1200), rate=0.0).records), "lr-zero")
    assert [symptom.kind for symptom in finding.explained] == ["never-learned"]


def test_norms_that_never_change_are_parameters_that_do_not_update() -> None:
    finding = only(sampled(0.0), "params-not-updating")
    assert finding.where == "parameters" and "bitwise" in finding.evidence[0].text


def test_no_gradient_at_all_points_to_the_graph() -> None:
    finding = only(sampled(0.0, grads=False), "params-not-updating")
    assert "does not depend" in finding.claim.hypothesis


def test_update_ratio_of_zero_is_enough() -> None:
    assert "update ratio exactly 0" in only(sampled(0.0, ratio=0.0), "params-not-updating").evidence[0].text


def test_moving_parameters_are_not_reported_and_those_at_a_rate_of_zero_are_no_news() -> None:
    assert kinds(sampled(1e-4)) == []
    assert kinds(sampled(0.0, ratio=1e-3)) == []
    assert kinds(sampled(0.0, rate=0.0)) == ["lr-zero"]


def test_parameters_that_stand_still_at_the_end_of_a_schedule_are_no_news() -> None:
    def at_the_end(rate: float) -> list[str]:
        script = start().steps(descent(400), rate=1e-3)
        for index in range(400, 440):
            script.add(layers(index, script.t + 0.1 * (index - 400), param_norm=[1.0] * 4, grad_norm=[0.1] * 4))
        return kinds(diagnose(script.steps([0.5] * 40, rate=rate).records))

    assert "params-not-updating" not in at_the_end(1e-7)
    assert "params-not-updating" in at_the_end(1e-5)


def test_loss_that_is_the_same_to_the_last_bit_is_a_plateau_that_says_so_until_it_moves() -> None:
    curve = descent(400)[:200]
    script = start().steps([*curve, *[curve[-1]] * 40])
    finding = only(diagnose(script.records), "plateau")
    assert (finding.severity, finding.first_step, finding.status) == ("warning", 199, "open")
    assert "in each of 32 points since step 199" in finding.symptom
    assert only(diagnose(script.steps([curve[-1] * 0.99]).records), "plateau").status == "resolved"


def test_a_log_that_repeats_its_numbers_is_not_called_constant() -> None:
    repeated = [value for value in descent(100)[:50] for _ in range(8)]
    assert "plateau" not in kinds(diagnose(start().steps([*repeated, *[repeated[-1]] * 60]).records))


def test_spike_while_the_rate_still_rises_is_a_warning_at_once() -> None:
    curve = [*descent(400)[:60], 6.0, 7.0, 8.0]
    warm_up = [step / 100 for step in range(1, len(curve) + 1)]
    finding = only(diagnose(start().steps(curve, rate=warm_up).records), "loss-spike")
    assert (finding.severity, finding.first_step) == ("warning", 60)
    assert only(diagnose(start().steps(curve, rate=1e-3).records), "loss-spike").severity == "info"


def evaluated(train: Sequence[float], evaluations: Sequence[float]) -> Engine:
    """Blocks of 40 training losses, an evaluation after each."""
    script = start()
    for index, value in enumerate(evaluations):
        script.steps(train[40 * index : 40 * index + 40])
        script.add(wire.Scalars(t=script.t, step=None, ordinal=script.ordinal - 1, values={"val/loss": value}))
    return diagnose(script.records)


def test_validation_and_training_that_rise_together_are_a_divergence_and_no_overfitting() -> None:
    train = [*flat(0.30, 240), *flat(0.313, 240)]
    found = [item for item in evaluated(train, [0.29] * 6 + [0.35] * 3).findings if item.kind == "divergence"]
    assert [(item.where, item.severity, item.status) for item in found] == [("val/loss", "warning", "open")]
    assert "it was 0.29" in found[0].symptom and "no overfitting" in found[0].claim.hypothesis
    back = [item for item in evaluated(train, [0.29] * 6 + [0.35] * 3 + [0.29]).findings if item.kind == "divergence"]
    assert [item.status for item in back] == ["resolved"]


@pytest.mark.parametrize(
    ("train", "evaluations"),
    [
        ([*flat(0.30, 360)], [0.29] * 6 + [0.35] * 3),
        ([*flat(0.30, 240), *flat(0.313, 120)], [0.29] * 6 + [0.36, 0.34, 0.32]),
    ],
    ids=["training does not rise", "it comes back"],
)
def test_validation_alone_or_on_its_way_back_is_no_divergence(train: list[float], evaluations: list[float]) -> None:
    assert "divergence" not in kinds(evaluated(train, evaluations))


@pytest.mark.parametrize("seed", range(3))
def test_validation_on_few_samples_beside_a_noisy_training_is_wild_and_nothing_else(seed: int) -> None:
    rng = np.random.default_rng(seed)
    train, evaluations = np.exp(rng.normal(-1.2, 0.2, 1200)), np.exp(rng.normal(-1.2, 0.15, 30))
    train[:3] = 3.0
    assert weighty(evaluated(train.tolist(), evaluations.tolist())) == []


def test_validation_that_heals_halfway_and_stays_there_is_a_divergence() -> None:
    train, healing = [*flat(0.30, 240), *flat(0.313, 320)], [0.9, 0.5, 0.40, 0.36, 0.34, 0.335]
    assert "divergence" not in kinds(evaluated(train, [0.29] * 6 + healing[:4]))
    assert "divergence" in kinds(evaluated(train, [0.29] * 6 + healing))


def test_a_height_that_the_loss_came_back_from_is_a_note_until_it_stays_longer() -> None:
    calm = [0.4 + 0.02 * wobble(step) for step in range(100)]
    high = [15.0 + 0.5 * wobble(step) for step in range(100)]
    start = [2.3 - 0.019 * step + 0.02 * wobble(step) for step in range(100)]
    turns = [*start, *high, *calm, *high, *calm, *high]
    script = Script().add(hello(of=manifest(seed=1))).steps(turns)
    assert {f.severity for f in diagnose(script.records).findings if f.kind == "divergence"} == {"info"}
    stays = Script().add(hello(of=manifest(seed=1))).steps([*turns, *high, *high, *high])
    assert "critical" in {f.severity for f in diagnose(stays.records).findings if f.kind == "divergence"}


def test_noise_around_zero_has_no_level_to_fall_back_from() -> None:
    losses = [-0.15 + 0.1 * wobble(7 * step) for step in range(150)]
    losses += [0.1 * wobble(7 * step + 1) for step in range(750)]
    script = Script().add(hello(of=manifest(seed=1))).steps(losses)
    assert not [f for f in diagnose(script.records).findings if f.kind == "divergence" and f.severity != "info"]
