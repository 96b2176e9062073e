"""Layer by layer: what does not learn, what is dead, what vanishes or explodes, and how far a step goes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from .records import NAMES, Script, descent, diagnose, hello, kinds, layers, manifest, only, schema, weighty, wobble

LOOKS = (0, 1, 2, 4, 8)
"""The steps that the probe looks at in any case."""


def run(
    count: int = 120,
    *,
    frozen: Sequence[bool] = (),
    held: Sequence[bool] = (),
    names: Sequence[str] = NAMES,
    numel: int = 10,
    optimizer: str = "SGD",
    losses: Sequence[float] | None = None,
    rate: float | Sequence[float] = 1e-3,
    looks: Sequence[int] = LOOKS,
    **columns: Sequence[float | None],
) -> Script:
    """A run with the same numbers in every look at its layers."""
    script = Script(block=1).add(
        hello(of=manifest(optimizers=[{"class": optimizer}])),
        schema(frozen=frozen, in_optimizer=held, names=names, numel=numel),
    )
    losses = descent(count) if losses is None else losses
    norms = [1.0 + 0.01 * step for step in range(len(losses))]
    for step, loss in enumerate(losses):
        if step in looks:
            size = len(names)
            script.add(layers(step, script.t, **{"param_norm": [norms[step]] * size, **columns}))
        script.steps([loss], rate=rate if isinstance(rate, float) else rate[step])
    return script


def test_a_part_that_no_gradient_reaches_is_named_by_its_module() -> None:
    names = ["encoder.0.weight", "encoder.2.weight", "head.weight", "head.bias"]
    script = run(names=names, grad_norm=[None, None, 1, 1], param_norm=[2.0, 2.0, None, None])
    finding = only(diagnose(script.records), "frozen-layers")
    assert (finding.severity, finding.where, finding.first_step) == ("warning", "encoder", 0)
    assert "no gradient ever reaches encoder: 50.0% of the trained parameters" in finding.symptom


def test_a_graph_that_is_cut_between_two_modules_names_both() -> None:
    names = ["tok.weight", "blocks.0.up.weight", "blocks.1.up.weight", "head.weight"]
    script = run(names=names, grad_norm=[None, None, 1, 1], param_norm=[2.0, 2.0, None, None])
    claim = only(diagnose(script.records), "frozen-layers").claim
    assert "reaches tok to blocks.0.up:" in claim.symptom
    assert "between blocks.0.up and blocks.1.up" in claim.hypothesis and "blocks.0.up and blocks.1.up" in claim.fix


def test_what_moves_without_a_gradient_to_be_seen_is_not_unreached() -> None:
    sparse = run(names=["emb.weight", *NAMES[1:]], grad_norm=[None, 1, 1, 1])
    assert weighty(diagnose(sparse.records)) == []
    huge = run(names=["emb.weight", *NAMES[1:]], grad_norm=[None, 1, 1, 1], param_norm=[9.0, None, None, None],
               update_ratio=[1e-9, 1e-3, 1e-3, 1e-3])  # fmt: skip
    assert weighty(diagnose(huge.records)) == []


def test_layers_that_are_used_in_turn_are_given_time_to_have_theirs() -> None:
    names = [*(f"paths.{number}.weight" for number in range(4)), "head.weight"]
    script = Script(block=1).add(hello(), schema(names=names))
    norms, told = [5.0] * 5, {}
    for step, loss in enumerate(descent(200)):
        chosen = step % 3 if step < 100 else step % 4
        norms[chosen] += 0.1
        grads = [1.0 if number in (chosen, 4) else None for number in range(5)]
        script.add(layers(step, script.t, param_norm=list(norms), grad_norm=grads)).steps([loss])
        if step in (50, 90, 199):
            told[step] = weighty(diagnose(script.records))
    assert told == {50: [], 90: ["frozen-layers"], 199: []}


def test_steps_whose_loss_is_nothing_have_no_gradient_and_no_dead_layers() -> None:
    losses = [0.1 if step % 40 == 0 else 0.0 for step in range(400)]
    looks = [step for step in range(1, 400, 3) if step % 40]
    assert weighty(diagnose(run(losses=losses, looks=looks, grad_norm=[0.0] * 4).records)) == []


def test_layers_that_a_step_does_not_use_do_not_make_its_steps_small() -> None:
    script = run(grad_norm=[None, None, None, 1.0], update_ratio=[0.0, 0.0, 0.0, 2e-3])
    assert "update-ratio-low" not in kinds(diagnose(script.records))


def test_experts_that_no_input_is_routed_to_are_a_note() -> None:
    names = [f"moe.experts.{expert}.weight" for expert in range(4)]
    script = run(names=names, grad_norm=[1.0, None, 1.0, None], param_norm=[None, 2.0, None, 2.0])
    finding = only(diagnose(script.records), "frozen-layers")
    assert finding.severity == "info" and "routed" in finding.claim.hypothesis


def test_a_layer_that_is_used_now_and_then_is_not_unreached() -> None:
    script = run(grad_norm=[None, 1.0, 1.0, 1.0], looks=LOOKS[:4])
    script.add(layers(script.ordinal - 1, script.t, param_norm=[1.0] * 4, grad_norm=[1.0] * 4))
    assert "frozen-layers" not in kinds(diagnose(script.steps(descent(8)).records))


def test_a_head_with_gradients_in_no_optimizer_is_critical_and_a_body_a_note() -> None:
    head = only(diagnose(run(held=[True, True, True, False], grad_norm=[1.0] * 4).records), "frozen-layers")
    assert (head.severity, head.where) == ("critical", "head") and "in no optimizer" in head.symptom
    body = only(diagnose(run(held=[False, False, False, True], grad_norm=[1.0] * 4).records), "frozen-layers")
    assert body.severity == "info"


def test_a_model_whose_optimizer_trains_copies_of_it_is_quiet() -> None:
    names = ["embed.weight", "head.weight", "AdamW.g0.p0", "AdamW.g0.p1"]
    script = run(names=names, held=[False, False, True, True], grad_norm=[1.0] * 4)
    assert weighty(diagnose(script.records)) == []


def test_a_shard_without_elements_is_not_dead() -> None:
    script = Script(block=1).add(hello(), msgspec.structs.replace(schema(), shards=[8] * 4))
    for step in range(40):
        script.add(layers(step, script.t, param_norm=[0.0, 1.0 + step, 1.0, 1.0], grad_norm=[0.0, 1.0, 1.0, 1.0]))
        script.steps([2.0])
    assert "dead-layer" not in kinds(diagnose(script.records))


def test_a_body_that_was_thawed_and_never_given_to_the_optimizer_is_critical() -> None:
    script = run(frozen=[True, False, False, False], held=[False, True, True, True], grad_norm=[None, 1.0, 1.0, 1.0])
    script.add(schema(id=2, in_optimizer=[False, True, True, True]))
    for step in range(5):
        sample = layers(script.ordinal, script.t, param_norm=[1.0 + step] * 4, grad_norm=[1.0] * 4)
        script.add(type(sample)(2, sample.ordinal, None, sample.t, sample.columns)).steps(descent(8))
    finding = only(diagnose(script.records), "frozen-layers")
    assert (finding.severity, finding.where) == ("critical", "embed")


def test_everything_but_the_norms_frozen_under_a_flat_loss_is_named() -> None:
    flat = [4.6 + 0.01 * wobble(step) for step in range(600)]
    script = run(
        losses=flat,
        frozen=[True, True, False, True],
        held=[False, False, True, False],
        grad_norm=[None, None, 1e-3, None],
    )
    finding = only(diagnose(script.records), "frozen-layers")
    assert finding.severity == "warning" and "75.0% of the parameters are frozen" in finding.symptom
    assert "never-learned" not in kinds(diagnose(script.records))


@pytest.mark.parametrize(
    "losses", [descent(600), [4.6 + 0.01 * wobble(step) for step in range(280)]], ids=["falls", "young"]
)
def test_a_mostly_frozen_model_that_learns_or_has_just_begun_is_quiet(losses: list[float]) -> None:
    script = run(losses=losses, frozen=[True, True, False, True], grad_norm=[None, None, 1e-3, None])
    assert "frozen-layers" not in kinds(diagnose(script.records))


def test_a_layer_whose_gradient_is_exactly_zero_is_dead_and_the_deepest_one_is_named() -> None:
    names = ["first.weight", "first.bias", "second.weight", "second.bias", "last.weight", "last.bias"]
    script = run(names=names, grad_norm=[0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    finding = only(diagnose(script.records), "dead-layer")
    assert (finding.severity, finding.where, finding.first_step) == ("warning", "second", 0)
    assert "ends at second" in finding.symptom


def test_a_gradient_that_is_zero_in_the_first_step_only_is_how_adapters_begin() -> None:
    script = run(grad_norm=[0.0, 1.0, 1.0, 1.0], looks=(0,))
    for _ in range(8):
        script.add(layers(script.ordinal, script.t, param_norm=[1.0] * 4, grad_norm=[1e-6, 1.0, 1.0, 1.0])).steps([1.0])
    assert "dead-layer" not in kinds(diagnose(script.records))


def test_an_embedding_with_a_sparse_gradient_is_not_dead() -> None:
    script = run(
        grad_norm=[0.3, 1.0, 1.0, 1.0], grad_zero=[0.9999, 0.0, 0.0, 0.0], update_ratio=[1e-6, 1e-3, 1e-3, 1e-3]
    )
    assert weighty(diagnose(script.records)) == []


DEEP = [f"{index}.weight" for index in range(9)]


def test_gradients_that_vanish_toward_the_input_are_a_profile() -> None:
    script = run(names=DEEP, numel=100, grad_norm=[10.0 ** (index - 8) for index in range(9)])
    finding = only(diagnose(script.records), "vanishing-gradients")
    assert (finding.severity, finding.where) == ("warning", "0")
    assert "6.0 powers of ten from 8.weight to 0.weight" in finding.symptom


def test_under_adam_vanishing_gradients_are_only_noted() -> None:
    script = run(names=DEEP, numel=100, optimizer="AdamW", grad_norm=[10.0 ** ((index - 8) / 2) for index in range(9)])
    assert only(diagnose(script.records), "vanishing-gradients").severity == "info"


def test_one_small_layer_is_no_profile() -> None:
    script = run(names=DEEP, numel=100, grad_norm=[1e-9, *[1.0] * 8])
    assert "vanishing-gradients" not in kinds(diagnose(script.records))


def test_steps_that_rewrite_the_weights_are_named_with_a_rate_to_try() -> None:
    script = run(rate=0.3, looks=(2, 8), grad_norm=[1.0] * 4, update_ratio=[0.4, 0.4, 0.3, 0.5])
    finding = only(diagnose(script.records), "update-ratio-high")
    assert finding.severity == "warning" and "40% of the weights" in finding.symptom
    assert "try 0.015" in finding.claim.fix


THROWN_OFF = [2.3, 20.0, 40.0, 50.0, *[30.0 + 0.1 * wobble(step) for step in range(60)]]


def test_one_layer_whose_steps_are_far_too_large_is_named_when_the_loss_was_thrown_off() -> None:
    alone = [3e-3, 3e-3, 4e-3, 0.3]
    engine = diagnose(run(losses=THROWN_OFF, looks=(2, 8), grad_norm=[1.0] * 4, update_ratio=alone).records)
    finding = only(engine, "update-ratio-high")
    assert (finding.severity, finding.where) == ("critical", "head.weight") and weighty(engine) == [finding.kind]
    assert "30% of head.weight" in finding.symptom and "the loss rose from 2.3 to" in finding.symptom
    assert [known.kind for known in finding.explained] == ["divergence"]
    learns = run(looks=(2, 8), grad_norm=[1.0] * 4, update_ratio=alone)
    assert weighty(diagnose(learns.records)) == []


def test_a_layer_that_began_at_zero_may_move_by_any_share() -> None:
    script = run(looks=(), names=["lora_a", "lora_b"])
    for step in range(3):
        norms = [1.0, 0.01 * step]
        script.add(layers(script.ordinal, script.t, grad_norm=[1.0, 1.0], param_norm=norms, update_ratio=[1e-2, 0.9]))
        script.steps(descent(8))
    assert weighty(diagnose(script.records)) == []


def test_steps_that_move_nothing_are_named_unless_the_rate_is_still_rising() -> None:
    flat = [2.3 + 0.01 * wobble(step) for step in range(200)]
    low = run(losses=flat, rate=1e-6, looks=(2, 8), grad_norm=[1.0] * 4, update_ratio=[2e-7] * 4)
    finding = only(diagnose(low.records), "update-ratio-low")
    assert (finding.severity, finding.first_step) == ("warning", 2) and "try 0.001" in finding.claim.fix
    rising = [1e-6 * (1 + step) for step in range(200)]
    script = run(losses=flat, rate=rising, looks=(2, 8), grad_norm=[1.0] * 4, update_ratio=[2e-7] * 4)
    assert "update-ratio-low" not in kinds(diagnose(script.records))


def test_a_clip_that_comes_before_unscaling_is_seen_by_its_coefficient() -> None:
    script = Script().add(hello(), schema()).steps(descent(64), clip=1.8e-5, loss_scale=65536.0)
    finding = only(diagnose(script.records), "update-ratio-low")
    assert (finding.where, finding.severity) == ("clip", "warning") and "unscale_" in finding.claim.fix
    quiet = Script().add(hello(), schema()).steps(descent(64), clip=0.3, loss_scale=65536.0)
    assert "update-ratio-low" not in kinds(diagnose(quiet.records))


def norms_of(*stretches: tuple[int, float]) -> list[float]:
    levels = [level for count, level in stretches for _ in range(count)]
    return [level * (1.0 + 0.3 * wobble(step)) for step, level in enumerate(levels)]


def test_a_norm_that_leaves_its_level_explodes_and_comes_back() -> None:
    norms = norms_of((100, 1.0), (20, 50.0))
    finding = only(diagnose(Script().add(hello()).steps(descent(120), grad_norm=norms).records), "exploding-gradients")
    assert (finding.severity, finding.status, finding.first_step) == ("warning", "open", 100)
    norms += norms_of((60, 1.0))
    finding = only(diagnose(Script().add(hello()).steps(descent(180), grad_norm=norms).records), "exploding-gradients")
    assert (finding.severity, finding.status) == ("info", "resolved")


@pytest.mark.parametrize(
    "norms", [norms_of((100, 1.0), (3, 50.0), (100, 1.0)), [1.003**step for step in range(1500)]], ids=["spike", "slow"]
)
def test_a_short_spike_and_a_slow_rise_of_the_norm_are_no_explosion(norms: list[float]) -> None:
    script = Script().add(hello()).steps(descent(len(norms)), grad_norm=norms)
    assert "exploding-gradients" not in kinds(diagnose(script.records))
