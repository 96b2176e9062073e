"""Small real trainings for the tests of the hooks, and hooks armed around them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from ntstop_probe.hooks.install import Hooks, HookSettings, arm
from ntstop_probe.outbox import Outbox
from ntstop_probe.progress import Progress
from ntstop_probe.rows import EventRow, LayerRow, Row, SchemaRow, StepRow


@dataclass
class Armed:
    """Armed hooks, and what came out of them so far."""

    hooks: Hooks
    outbox: Outbox
    progress: Progress
    rows: list[Row] = field(default_factory=list)

    def drain(self) -> list[Row]:
        """All rows up to now; closes the open step."""
        self.hooks.finish()
        self.rows += self.outbox.drain(1_000_000)
        return self.rows

    @property
    def steps(self) -> list[StepRow]:
        return [row for row in self.drain() if isinstance(row, StepRow)]

    @property
    def layers(self) -> list[LayerRow]:
        return [row for row in self.drain() if isinstance(row, LayerRow)]

    @property
    def schemas(self) -> list[SchemaRow]:
        return [row for row in self.drain() if isinstance(row, SchemaRow)]

    def events(self, kind: str) -> list[EventRow]:
        return [row for row in self.drain() if isinstance(row, EventRow) and row.kind == kind]


@contextlib.contextmanager
def armed(**settings: Any) -> Iterator[Armed]:
    """Hooks armed for the block; afterwards torch is as it was."""
    outbox, progress = Outbox(), Progress()
    hooks = arm(outbox, progress, HookSettings(**settings))
    try:
        yield Armed(hooks, outbox, progress)
    finally:
        hooks.finish()
        hooks.disarm()


def mlp(seed: int = 0, width: int = 16) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, 1))


def data(count: int = 32, seed: int = 1) -> TensorDataset:
    generator = torch.Generator().manual_seed(seed)
    return TensorDataset(torch.randn(count, 8, generator=generator), torch.randn(count, 1, generator=generator))


def loader(count: int = 32, batch: int = 8, **options: Any) -> DataLoader[Any]:
    return DataLoader(data(count), batch_size=batch, **options)


def loss_of(model: nn.Module, batch: Any) -> torch.Tensor:
    inputs, targets = batch
    return nn.functional.mse_loss(model(inputs), targets)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, batches: Any, clip: float | None = None) -> list[float]:
    """One plain epoch; returns the losses."""
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        losses.append(loss.item())
    return losses
