"""Gradients as the backward made them: before clipping, unscaled, in float32; and what is lost in the update."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import clip_grad

from ntstop_probe.hooks import norms as norms_module

from .training import armed, data, loader, loss_of, mlp, train


def norms_of(model: nn.Module) -> list[float]:
    return [float(parameter.grad.float().norm()) for parameter in model.parameters() if parameter.grad is not None]


def test_the_norms_of_clipping_are_taken_as_they_pass_and_not_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[list[Any]] = []
    original = norms_module.norms
    monkeypatch.setattr(
        "ntstop_probe.hooks.layers.norms", lambda tensors: measured.append(tensors) or original(tensors)
    )
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    foreach, before, totals = torch._foreach_norm, [], []
    with armed(budget=1.0) as probe:
        for batch in loader():
            optimizer.zero_grad()
            loss_of(model, batch).backward()
            before.append(norms_of(model))
            totals.append(float(nn.utils.clip_grad_norm_(model.parameters(), 0.05)))
            assert torch._foreach_norm is foreach
            optimizer.step()
    gradients = measured[0::2]
    assert all(tensor is None for tensors in gradients for tensor in tensors)
    for row in probe.layers:
        assert row.fields["grad_norm"] == pytest.approx(before[row.ordinal])
        assert row.fields["grad_norm"] != pytest.approx(norms_of(model))
    assert [step.grad_norm for step in probe.steps] == pytest.approx(totals)
    assert len(probe.layers) >= 3


def test_parts_of_a_model_clipped_apart_have_their_norms_before_clipping() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    before = []
    with armed(budget=1.0) as probe:
        for batch in loader():
            optimizer.zero_grad()
            loss_of(model, batch).backward()
            before.append(norms_of(model))
            nn.utils.clip_grad_norm_(model[0].parameters(), 0.01)
            nn.utils.clip_grad_norm_(model[3].parameters(), 0.02)
            optimizer.step()
    for row in probe.layers:
        assert row.fields["grad_norm"] == pytest.approx(before[row.ordinal])


def test_a_clipping_that_raises_leaves_torch_as_it_was() -> None:
    foreach = torch._foreach_norm
    model = mlp()
    with armed(budget=1.0) as probe:
        train(model, torch.optim.SGD(model.parameters(), lr=0.1), loader())
        (loss_of(model, data().tensors) * float("nan")).backward()
        with pytest.raises(RuntimeError, match="non-finite"):
            nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
        assert torch._foreach_norm is foreach
    assert probe.progress.disabled == []


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("clipping", ["none", "unscaled", "scaled"])
def test_the_gradient_norm_does_not_jump_when_only_the_loss_scale_is_raised(fused: bool, clipping: str) -> None:
    """Scale times 2 every third step; the job unscales before it clips, or forgets to, or does not clip."""
    model = mlp().eval()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=3)
    batch = data().tensors
    with armed(budget=1.0) as probe:
        for _ in range(12):
            optimizer.zero_grad()
            scaler.scale(loss_of(model, batch)).backward()
            if clipping == "unscaled":
                scaler.unscale_(optimizer)
            if clipping != "none":
                nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            scaler.step(optimizer)
            scaler.update()
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        expected = norms_of(model)
    steps = probe.steps[:12]
    assert [step.loss_scale for step in steps] == [64.0 * 2 ** (index // 3) for index in range(12)]
    for row in probe.layers:
        assert row.fields["grad_norm"] == pytest.approx(expected, rel=1e-3)
    seen = [step.grad_norm for step in steps if step.grad_norm is not None]
    assert len(seen) == (12 if clipping != "none" else len({row.ordinal for row in probe.layers}))
    assert seen == pytest.approx([math.hypot(*expected)] * len(seen), rel=1e-3)
    if clipping == "scaled":
        # It is the scaled norm that was clipped.
        scaled = [math.hypot(*expected) * (step.loss_scale or 0.0) for step in steps]
        assert [step.clip for step in steps] == pytest.approx([min(1, 0.1 / norm) for norm in scaled], rel=1e-3)
    assert probe.progress.disabled == []


def test_half_precision_norms_do_not_overflow_and_are_not_taken_from_clipping() -> None:
    weight = nn.Parameter(torch.ones(4_096, dtype=torch.half))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    with armed(budget=1.0) as probe:
        for _ in range(3):
            weight.grad = torch.full_like(weight, 2_000.0)
            (weight.sum() * 0).backward()
            nn.utils.clip_grad_norm_([weight], 1e9)
            optimizer.step()
    assert float(torch.full((4_096,), 2_000.0, dtype=torch.half).norm()) == math.inf
    assert probe.layers[0].fields["grad_norm"] == [128_000.0]


def test_updates_lost_in_bfloat16_and_dead_gradients_are_counted() -> None:
    alive = nn.Parameter(torch.full((64, 64), 256.0, dtype=torch.bfloat16))
    lost = nn.Parameter(torch.full((64, 64), 256.0, dtype=torch.bfloat16))
    dead = nn.Parameter(torch.ones(64, 64))
    optimizer = torch.optim.SGD(
        [{"params": [alive], "lr": 2.0}, {"params": [lost], "lr": 0.1}, {"params": [dead], "lr": 0.1}]
    )
    half = torch.zeros(64, 64)
    half[:, ::2] = 1.0
    with armed(budget=1.0) as probe:
        for _ in range(4):
            optimizer.zero_grad()
            (alive.sum() + lost.sum() + (dead * half).sum()).backward()
            optimizer.step()
    [row] = [row for row in probe.layers if "update_ratio" in row.fields]
    assert row.fields["unchanged"] == [0.0, 1.0, 0.5]
    assert row.fields["grad_zero"] == [0.0, 0.0, 0.5]
    assert row.fields["update_ratio"][1] == 0.0
    assert row.fields["update_ratio"][0] == pytest.approx(2.0 / 252.0, rel=0.01)


def test_calls_of_zero_grad_and_backwards_are_counted_per_step() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with armed() as probe:
        for index, batch in enumerate(loader(64)):
            if index < 2:
                optimizer.zero_grad()
            elif index < 4:
                model.zero_grad()
            loss_of(model, batch).backward()
            if index == 5:
                loss_of(model, batch).backward()
            optimizer.step()
            if index == 6:
                optimizer.zero_grad()
                optimizer.zero_grad()
    assert [step.zero_grads for step in probe.steps] == [1, 1, 1, 1, 0, 0, 2, 0]
    assert [step.micro for step in probe.steps] == [1, 1, 1, 1, 1, 2, 1, 1]


def test_samples_are_counted_where_a_backward_followed_their_batch() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with armed() as probe:
        train(model, optimizer, loader(20))
        with torch.no_grad():
            for batch in loader(64):
                loss_of(model, batch)
        for index, batch in enumerate(loader(32)):
            loss_of(model, batch).backward()
            if index % 2:
                optimizer.step()
        train(model, optimizer, [data(8).tensors] * 2)
    assert [step.samples for step in probe.steps] == [8, 16, 20, 36, 52, 52, 52]


def test_a_batch_of_unknown_size_ends_the_count_of_samples() -> None:
    class Opaque(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> Any:
            return {"text": "no tensor"}

    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with armed() as probe:
        for _ in torch.utils.data.DataLoader(Opaque(), batch_size=None):
            loss_of(model, data(8).tensors).backward()
            optimizer.step()
    assert [step.samples for step in probe.steps] == [None] * 3


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_autocast_is_seen_in_the_graph_of_the_first_loss(dtype: torch.dtype | None) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with armed() as probe:
        for batch in loader():
            with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
                loss = loss_of(model, batch)
            loss.backward()
            optimizer.step()
    assert probe.hooks.facts().precision == ("float32, autocast bfloat16" if dtype else "float32")


def test_clip_grad_functions_of_an_early_import_are_seen_too() -> None:
    early = clip_grad.clip_grad_norm_
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with armed(budget=1.0) as probe:
        for batch in loader():
            loss_of(model, batch).backward()
            early(model.parameters(), 1.0)
            optimizer.step()
    assert all(step.grad_norm is not None and step.clip is not None for step in probe.steps)
