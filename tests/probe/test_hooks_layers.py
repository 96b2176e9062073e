"""Per-layer numbers against what torch itself computes, and when they are taken."""

from __future__ import annotations

import gc
import math
import time
import weakref
from typing import Any

import pytest
import torch
from torch import nn

from ntstop_probe.hooks import layers as layers_module
from ntstop_probe.hooks import norms as norms_module
from ntstop_probe.hooks.captured import Captured
from ntstop_probe.hooks.naming import clean_name, find_model, name_layers
from ntstop_probe.hooks.norms import UpdateProbe, norms, strided_sample
from ntstop_probe.hooks.patches import WHILE_CLIPPING

from .training import armed, data, loader, loss_of, mlp, train


@pytest.mark.parametrize("clip", [None, 0.05])
def test_norms_are_those_of_the_gradients_before_clipping_and_of_the_weights_before_the_update(
    clip: float | None,
) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    gradients: list[list[float]] = []
    weights: list[list[float]] = []
    with armed(budget=1.0) as probe:
        for batch in loader():
            optimizer.zero_grad()
            loss_of(model, batch).backward()
            gradients.append([float(parameter.grad.norm()) for parameter in model.parameters()])  # type: ignore[union-attr]
            weights.append([parameter.norm().item() for parameter in model.parameters()])
            if clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
    layers = probe.layers
    assert [row.ordinal for row in layers[:3]] == [0, 1, 2]
    for row in layers:
        assert row.fields["grad_norm"] == pytest.approx(gradients[row.ordinal], rel=1e-4)
        assert row.fields["param_norm"] == pytest.approx(weights[row.ordinal], rel=1e-5)
        assert row.fields["grad_nonfinite"] == [0.0] * 4
        step = probe.steps[row.ordinal]
        assert step.grad_norm == pytest.approx(math.hypot(*gradients[row.ordinal]), rel=1e-4)
    assert probe.schemas[0].names == ["0.weight", "0.bias", "3.weight", "3.bias"]


def test_the_update_ratio_is_what_moved_over_what_was_there() -> None:
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    ratios = {}
    with armed(budget=1.0) as probe:
        for index, batch in enumerate(loader(80)):
            optimizer.zero_grad()
            loss_of(model, batch).backward()
            before = [parameter.detach().clone() for parameter in model.parameters()]
            optimizer.step()
            pairs = zip(model.parameters(), before, strict=True)
            ratios[index] = [((now - then).norm() / then.norm()).item() for now, then in pairs]
    sampled = [row for row in probe.layers if "update_ratio" in row.fields]
    assert [row.ordinal for row in sampled] == [2, 8]
    for row in sampled:
        assert row.fields["update_ratio"] == pytest.approx(ratios[row.ordinal], rel=1e-3)


def test_a_strided_sample_of_a_large_parameter_estimates_its_update_within_a_few_percent() -> None:
    torch.manual_seed(0)
    table = torch.randn(5_000, 128)
    move = torch.zeros_like(table)
    rows = torch.randperm(5_000)[:600]
    move[rows] = 0.1 * torch.randn(600, 128)
    probe = UpdateProbe([table])
    table += move
    [(indices, [size], block)] = probe.finish()
    changed, before, unchanged = block.tolist()
    assert indices == [0]
    exact = (move.norm() / (table - move).norm()).item()
    assert changed / before == pytest.approx(exact, rel=0.1)
    assert unchanged / size == pytest.approx(1 - 600 / 5_000, abs=0.02)
    assert strided_sample(table, 16_384).numel() <= 16_384  # type: ignore[union-attr]


def test_norms_of_mixed_kinds_of_tensors() -> None:
    values = torch.tensor([3.0, 4.0])
    tensors = [
        values,
        values.double(),
        torch.full((64,), 10_000.0, dtype=torch.half),
        values.bfloat16(),
        torch.empty(0),
        None,
        torch.sparse_coo_tensor(torch.tensor([[0]]), torch.tensor([1.0]), (4,)),
        values.to(torch.float8_e5m2),
        torch.empty(2, device="meta"),
        torch.complex(values, values * 0),
        torch.tensor([1, 2]),
        torch.tensor([1.0, float("nan")]),
    ]
    found = {}
    for indices, block in norms(tensors):
        found.update(zip(indices, block.tolist(), strict=True))
    assert sorted(found) == [0, 1, 2, 3, 4, 9, 11]
    assert [found[index] for index in (0, 1, 3, 4, 9)] == pytest.approx([5.0, 5.0, 5.0, 0.0, 5.0])
    # In half precision this norm would be infinite.
    assert found[2] == 80_000.0
    assert math.isinf(float(tensors[2].norm()))  # type: ignore[union-attr]
    assert math.isnan(found[11])


def test_a_sample_of_a_transposed_parameter_is_a_view_and_of_a_gapped_one_is_none() -> None:
    weight = torch.randn(64, 32)
    transposed = strided_sample(weight.t(), 100)
    assert transposed is not None
    assert transposed.untyped_storage().data_ptr() == weight.untyped_storage().data_ptr()
    assert strided_sample(weight[:, ::2], 100) is None
    assert strided_sample(torch.empty(0), 100) is None


def test_a_loss_that_is_not_finite_is_looked_into_at_that_very_step_but_not_forever() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    batch = data(8).tensors
    with armed(budget=1e-9) as probe:
        for index in range(60):
            optimizer.zero_grad()
            loss = loss_of(model, batch)
            if index >= 45:
                loss = loss * float("nan")
            loss.backward()
            optimizer.step()
    late = [row for row in probe.layers if row.ordinal >= 32]
    assert [row.ordinal for row in late if row.ordinal >= 45][:4] == [45, 46, 47, 48]
    assert len([row for row in late if row.ordinal >= 45]) <= 5
    assert late[-1].fields["grad_nonfinite"] == [1.0] * 4
    assert math.isnan(late[-1].fields["grad_norm"][0])  # type: ignore[arg-type]


def test_without_layers_only_timing_and_loss_are_measured() -> None:
    model = mlp()
    with armed(layers=False) as probe:
        losses = train(model, torch.optim.SGD(model.parameters(), lr=0.1), loader())
    assert probe.layers == []
    assert [step.losses["loss"] for step in probe.steps] == losses
    assert all(step.grad_norm is None for step in probe.steps)


def test_parameters_that_no_optimizer_holds_are_in_the_schema_and_marked() -> None:
    model = mlp()
    model[0].weight.requires_grad_(False)
    optimizer = torch.optim.SGD(model[3].parameters(), lr=0.1)
    with armed() as probe:
        probe.hooks.watch(model, optimizer)
        train(model, optimizer, loader())
    [schema] = probe.schemas
    assert schema.in_optimizer == [False, False, True, True]
    assert schema.frozen == [True, False, False, False]
    fields = probe.layers[0].fields
    assert fields["grad_norm"][0] is None
    assert None not in fields["grad_norm"][1:]
    assert None not in fields["param_norm"]


def test_a_model_that_is_found_and_one_that_is_watched_give_the_same_names() -> None:
    model = mlp()
    found = find_model(list(model.parameters()))
    assert found is model
    wrapped = nn.Module()
    wrapped.add_module("module", model)
    assert [layer.name for layer in name_layers([wrapped], [])] == [name for name, _ in model.named_parameters()]
    assert clean_name("module._orig_mod.blocks.0._orig_mod.weight") == "blocks.0.weight"
    assert clean_name("module") == "module"


def test_loose_parameters_are_named_by_optimizer_group_and_place() -> None:
    weights = [nn.Parameter(torch.ones(3)) for _ in range(3)]
    optimizer = torch.optim.SGD([{"params": weights[:1]}, {"params": weights[1:], "lr": 0.5}], lr=0.1)
    with armed() as probe:
        for _ in range(3):
            sum(weight.pow(2).sum() for weight in weights).backward()  # type: ignore[union-attr]
            optimizer.step()
    assert probe.schemas[0].names == ["SGD.g0.p0", "SGD.g1.p0", "SGD.g1.p1"]


def test_unfreezing_and_adding_a_group_give_a_new_schema() -> None:
    model = mlp()
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD(model[3].parameters(), lr=0.1)
    with armed(budget=1.0) as probe:
        probe.hooks.watch(model, optimizer)
        train(model, optimizer, loader())
        model[0].requires_grad_(True)
        optimizer.add_param_group({"params": list(model[0].parameters())})
        train(model, optimizer, loader(128))
    assert [schema.in_optimizer for schema in probe.schemas] == [[False, False, True, True], [True] * 4]
    assert [schema.id for schema in probe.schemas] == [0, 1]
    assert probe.layers[-1].schema == 1
    assert probe.hooks.facts().frozen_parameters == 0


def test_nothing_of_the_job_is_kept_alive() -> None:
    with armed(budget=1.0) as probe:
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        train(model, optimizer, loader())
        probe.hooks.watch(model, optimizer)
        refs: list[weakref.ReferenceType[Any]] = [weakref.ref(thing) for thing in (model, optimizer, model[0].weight)]
        del model, optimizer
        gc.collect()
        assert [ref() for ref in refs] == [None] * 3
        other = mlp(2)
        train(other, torch.optim.SGD(other.parameters(), lr=0.1), loader())
        assert probe.progress.disabled == []


def test_gradients_are_read_and_never_written(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    original = norms_module.local
    monkeypatch.setattr(norms_module, "local", lambda tensor: calls.append(tensor._version) or original(tensor))
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with armed(budget=1.0) as probe:
        loss_of(model, data().tensors).backward()
        versions = [parameter.grad._version for parameter in model.parameters()]  # type: ignore[union-attr]
        optimizer.step()
        assert [parameter.grad._version for parameter in model.parameters()] == versions  # type: ignore[union-attr]
    assert calls
    assert len(probe.layers) == 1


def test_all_fields_of_a_sample_survive_the_way_into_a_record() -> None:
    from ntstop_probe.blocks import layers_record

    model = mlp()
    with armed(budget=1.0) as probe:
        train(model, torch.optim.SGD(model.parameters(), lr=0.1), loader())
    row = next(row for row in probe.layers if "update_ratio" in row.fields)
    assert layers_record(row).columns.keys() == {
        "grad_norm",
        "grad_nonfinite",
        "grad_zero",
        "param_norm",
        "unchanged",
        "update_ratio",
    }


def test_a_tensor_that_cannot_be_measured_costs_the_layers_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> None:
        raise NotImplementedError("no norm for this kind")

    monkeypatch.setattr(norms_module, "local", broken)
    model = mlp()
    with armed() as probe:
        losses = train(model, torch.optim.SGD(model.parameters(), lr=0.1), loader())
        losses += train(model, torch.optim.SGD(model.parameters(), lr=0.1), loader())
    assert [step.losses["loss"] for step in probe.steps] == losses
    assert probe.layers == []
    assert probe.progress.disabled == ["layers: NotImplementedError: no norm for this kind"]
    assert len(probe.events("warning")) == 1


def test_a_look_that_is_interrupted_does_not_cost_what_the_interruption_took(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(tensors: Any) -> Any:
        time.sleep(0.05)
        return norms(tensors)

    monkeypatch.setattr(layers_module, "norms", interrupted)
    model = mlp()
    with armed() as probe:
        train(model, torch.optim.SGD(model.parameters(), lr=0.05), loader(24))
        cost = probe.hooks._hooks.budget.norms.cost
    assert cost is not None
    assert cost < 0.05


def test_of_two_models_that_share_names_both_are_told_apart() -> None:
    class Generator(nn.Sequential):
        pass

    first, second, other = nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.Linear(2, 2)), Generator(nn.Linear(2, 2))
    alone = nn.ModuleDict({"head": nn.Linear(2, 2, bias=False)})

    def names(*models: nn.Module) -> list[str]:
        return [layer.name for layer in name_layers(models, [])]

    assert names(first, alone) == ["0.weight", "0.bias", "head.weight"]
    assert names(first, other) == ["Sequential.0.weight", "Sequential.0.bias", "Generator.0.weight", "Generator.0.bias"]
    assert names(first, second, alone) == [
        "Sequential#1.0.weight", "Sequential#1.0.bias", "Sequential#2.0.weight", "Sequential#2.0.bias", "head.weight"
    ]  # fmt: skip
    # A part of one that was met before is no model of its own.
    assert names(nn.ModuleList([first]), first) == ["0.0.weight", "0.0.bias"]


def test_what_stands_in_for_the_norm_while_clipping_measures_is_in_the_table_and_taken_back() -> None:
    original = torch._foreach_norm
    captured = Captured()
    weight = torch.ones(3)
    seen = []
    captured.during(lambda: seen.append(torch._foreach_norm([weight])))
    assert torch._foreach_norm is original
    assert [block.tolist() for _, block in captured.take([weight])] == [pytest.approx([3**0.5])]

    def somebody() -> None:
        torch._foreach_norm = theirs

    def theirs() -> None: ...

    try:
        captured.during(somebody)
        assert torch._foreach_norm is theirs, "what somebody else has put there stays"
    finally:
        torch._foreach_norm = original
    assert (WHILE_CLIPPING.module, WHILE_CLIPPING.attribute) == ("torch", "_foreach_norm")
