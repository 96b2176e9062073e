"""torch.compile makes the same graphs with the hooks armed, and the steps are seen all the same."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from .training import Armed, armed, loader, loss_of, mlp

Step = Callable[[Any], torch.Tensor]


def compiled_model(model: nn.Module, optimizer: torch.optim.Optimizer, backend: Any) -> Step:
    compiled = torch.compile(model, fullgraph=True, backend=backend)

    def step(batch: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(compiled, batch)
        loss.backward()
        optimizer.step()
        return loss

    return step


def compiled_clipping(model: nn.Module, optimizer: torch.optim.Optimizer, backend: Any) -> Step:
    clip = torch.compile(lambda: nn.utils.clip_grad_norm_(model.parameters(), 0.1), fullgraph=True, backend=backend)

    def step(batch: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        clip()
        optimizer.step()
        return loss

    return step


def compiled_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, backend: Any) -> Step:
    step_compiled = torch.compile(lambda: optimizer.step(), backend=backend)

    def step(batch: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        step_compiled()
        return loss

    return step


def compiled_loop(model: nn.Module, optimizer: torch.optim.Optimizer, backend: Any) -> Step:
    def step(batch: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        return loss

    compiled: Step = torch.compile(step, backend=backend)
    return compiled


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [compiled_model, compiled_clipping, compiled_optimizer, compiled_loop])
def test_same_graphs_same_losses_and_every_step_seen(make: Callable[..., Step]) -> None:
    from torch._dynamo.testing import CompileCounterWithBackend
    from torch._dynamo.utils import counters

    def run(probe: contextlib.AbstractContextManager[Armed | None]) -> tuple[int, int, int, list[float], Armed | None]:
        torch._dynamo.reset()
        counters.clear()
        counter = CompileCounterWithBackend("eager")
        model = mlp()
        step = make(model, torch.optim.SGD(model.parameters(), lr=0.05), counter)
        with probe as armed_probe:
            losses = [step(batch).item() for batch in loader()]
        breaks = sum(counters["graph_break"].values())
        return counter.frame_count, counter.op_count, breaks, losses, armed_probe

    *bare, _ = run(contextlib.nullcontext())
    *with_probe, probe = run(armed(budget=1.0))
    assert with_probe == bare
    assert probe is not None
    assert [step.losses["loss"] for step in probe.steps] == bare[3]
    assert probe.progress.disabled == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [compiled_optimizer, compiled_loop])
def test_layers_are_looked_at_although_the_hooks_of_the_optimizer_are_compiled_away(make: Callable[..., Step]) -> None:
    torch._dynamo.reset()
    model = mlp()
    step = make(model, torch.optim.SGD(model.parameters(), lr=0.05), "eager")
    norms = []
    with armed(budget=1.0) as probe:
        for batch in loader():
            step(batch)
            norms.append([float(parameter.grad.norm()) for parameter in model.parameters()])  # type: ignore[union-attr]
    # That the optimizer is compiled shows in the first step.
    assert [row.ordinal for row in probe.layers] == [1, 2]
    found = probe.layers[-1].fields
    before_clipping = found["grad_norm"][0] / norms[2][0]  # type: ignore[operator]
    assert found["grad_norm"] == pytest.approx([before_clipping * norm for norm in norms[2]], rel=1e-4)
    assert all(found["update_ratio"])
    assert [step.lrs for step in probe.steps] == [{"lr": 0.05}] * 4
    assert probe.progress.disabled == []
