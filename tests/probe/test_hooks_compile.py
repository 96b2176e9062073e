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

    def run(probe: contextlib.AbstractContextManager[Armed | None]) -> tuple[int, int, list[float], Armed | None]:
        torch._dynamo.reset()
        counter = CompileCounterWithBackend("eager")
        model = mlp()
        step = make(model, torch.optim.SGD(model.parameters(), lr=0.05), counter)
        with probe as armed_probe:
            losses = [step(batch).item() for batch in loader()]
        return counter.frame_count, counter.op_count, losses, armed_probe

    *bare, _ = run(contextlib.nullcontext())
    *with_probe, probe = run(armed(budget=1.0))
    assert with_probe == bare
    assert probe is not None
    assert [step.losses["loss"] for step in probe.steps] == bare[2]
    assert probe.progress.disabled == []
