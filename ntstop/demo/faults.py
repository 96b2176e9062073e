"""Faults that really happen in a training: each is done to the data, the model or the optimizer, none is pretended."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.optim import AdamW
from torch.utils.data import Dataset

from ntstop.demo.model import CharTransformer, Windows

_SLOW_FETCH = 0.25
"""Seconds that a batch takes longer under "slow-input"."""
_DEAD_BIAS = -1_000.0
"""Far below anything a layer-normed input can lift over 0."""


class FaultyWindows(Dataset[tuple[Tensor, Tensor, Tensor]]):
    """`Windows` that go wrong from a step on. Counts what it gives out, so it must be read by one process."""

    def __init__(self, windows: Windows, fault: str, at: int, batch: int) -> None:
        self.windows = windows
        self.fault = fault
        self.at = at
        self.batch = batch
        self.served = 0

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, start: int) -> tuple[Tensor, Tensor, Tensor]:
        step, first = self.served // self.batch, self.served % self.batch == 0
        self.served += 1
        characters, following, weights = self.windows[start]
        if first and self.fault == "nan" and step == self.at:
            weights = weights.clone()
            weights[0] = float("nan")
        elif first and self.fault == "slow-input" and step >= self.at:
            time.sleep(_SLOW_FETCH)
        elif first and self.fault == "hang" and step >= self.at:
            threading.Event().wait()
        return characters, following, weights


@dataclass(slots=True)
class Fault:
    """The fault of a demo: `name` (one of `FAULTS`, or "" for none) from the step `at` on."""

    name: str
    at: int
    kept: list[Tensor] = field(default_factory=list)
    """What "leak" holds on to."""

    def data(self, windows: Windows, batch: int) -> Dataset[tuple[Tensor, Tensor, Tensor]]:
        """The data set to load from, in batches of `batch`."""
        return FaultyWindows(windows, self.name, self.at, batch)

    def before_step(self, step: int, model: CharTransformer, optimizer: AdamW) -> AdamW:
        """Break the model or the optimizer before step number `step`; returns the optimizer to go on with."""
        if step != self.at:
            return optimizer
        if self.name == "dead-layer":
            _kill(model.blocks[len(model.blocks) // 2].forward_in)
        elif self.name == "frozen":
            return _over_copies(optimizer)
        return optimizer

    def rate(self, step: int) -> float:
        """The factor on the learning rate of step `step`."""
        return 100.0 if self.name == "lr" and step >= self.at else 1.0

    def after_forward(self, step: int, logits: Tensor) -> None:
        """Keep what should have been let go."""
        if self.name == "leak" and step >= self.at:
            self.kept.append(logits.detach())


def _kill(layer: nn.Linear) -> None:
    with torch.no_grad():
        layer.bias.fill_(_DEAD_BIAS)


def _over_copies(optimizer: AdamW) -> AdamW:
    """The same settings over copies of the tensors, as after a `model.to(...)` or `load` between the two lines."""
    groups = [
        {**group, "params": [p.detach().clone().requires_grad_() for p in group["params"]]}
        for group in optimizer.param_groups
    ]
    return AdamW(groups)
