"""On a CUDA device: nothing synchronizes, nothing gets into a captured graph, and the numbers arrive all the same."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from .training import Armed, armed

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
STEPS = 60


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)).cuda()


@contextlib.contextmanager
def synchronizing_is_an_error() -> Iterator[None]:
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")
        torch.cuda.synchronize()


def train(amp: bool, probe: Armed | None, loader: bool) -> tuple[list[torch.Tensor], nn.Module]:
    """Steps with clipping; with `amp` under autocast, with a gradient scaler and an optimizer that unscales itself."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    scaler = torch.amp.GradScaler("cuda", enabled=amp, init_scale=1024.0, growth_interval=16)
    batches = list(torch.randn(STEPS, 64, 256, device="cuda").unbind())
    source: Any = torch.utils.data.DataLoader(batches, batch_size=None) if loader else batches  # type: ignore[arg-type]
    losses: list[torch.Tensor] = []
    guard = contextlib.ExitStack()
    with guard:
        for index, inputs in enumerate(source):
            if index == 3:
                # The first steps also allocate what is needed later.
                guard.enter_context(synchronizing_is_an_error())
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16, enabled=amp):
                loss = model(inputs).float().pow(2).mean()
            scaler.scale(loss).backward()
            if not amp:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.detach())
            if probe is not None and index % 20 == 19:
                # As when the job logs: the host catches up.
                torch.cuda.set_sync_debug_mode("default")
                torch.cuda.synchronize()
                torch.cuda.set_sync_debug_mode("error")
    return losses, model


@pytest.mark.parametrize("loader", [True, False])
@pytest.mark.parametrize("amp", [False, True])
def test_nothing_synchronizes_and_losses_layers_and_phases_arrive(amp: bool, loader: bool) -> None:
    bare, plain = train(amp, None, loader)
    with armed(budget=1.0) as probe:
        losses, model = train(amp, probe, loader)
        torch.cuda.synchronize()
    assert [loss.item() for loss in losses] == [loss.item() for loss in bare]
    for one, other in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.equal(one, other)
    steps = probe.steps
    assert probe.progress.disabled == []
    assert len(steps) == STEPS
    seen = [step for step in steps if "loss" in step.losses]
    assert len(seen) > STEPS // 2
    for step in seen:
        assert step.losses["loss"] == pytest.approx(losses[step.ordinal].item(), rel=1e-3)
    assert any(row.fields.get("param_norm") for row in probe.layers)
    assert any("update_ratio" in row.fields for row in probe.layers)
    on_device = [step for step in steps if step.clocks]
    assert len(on_device) > STEPS // 4
    assert all(step.clocks["backward"] == "device" and step.phases["backward"] > 0 for step in on_device)
    if amp:
        assert {step.loss_scale for step in seen if step.loss_scale} >= {1024.0, 2048.0}
        assert "float16" in (probe.hooks.facts().autocast or "")
    else:
        assert any(step.grad_norm is not None and step.clip is not None for step in steps)


def test_a_captured_step_has_nothing_of_the_probe_in_it() -> None:
    """The same graph replayed gives the same weights, and its capture is neither broken nor asked about."""

    def capture(probe: contextlib.AbstractContextManager[Armed | None]) -> tuple[list[torch.Tensor], Armed | None]:
        model = network()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=True)
        inputs = torch.randn(64, 256, device="cuda", generator=torch.Generator("cuda").manual_seed(1))

        def step() -> None:
            optimizer.zero_grad(set_to_none=True)
            model(inputs).pow(2).mean().backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
            optimizer.step()

        with probe as found:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(4):
                    step()
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                step()
            for _ in range(10):
                graph.replay()
            for _ in range(4):
                step()
            torch.cuda.synchronize()
        return [parameter.detach().clone() for parameter in model.parameters()], found

    bare, _ = capture(contextlib.nullcontext())
    with_probe, found = capture(armed(budget=1.0))
    assert all(torch.equal(one, other) for one, other in zip(bare, with_probe, strict=True))
    assert found is not None
    assert found.progress.disabled == []
    assert len(found.steps) >= 8
