"""Learning rates of an optimizer."""

from __future__ import annotations

from typing import Any

import torch

MAX_GROUPS = 8
"""Learning rates a step per optimizer: some recipes make a group for every tensor."""


def rates(groups: Any) -> list[float | None]:
    """One a parameter group; None where it would have to be waited for."""
    if len(groups) == 1:
        lr = groups[0].get("lr")
        return [lr if lr.__class__ is float else _number(lr)]
    return [_number(group.get("lr")) for group in groups[:MAX_GROUPS]]


def _number(lr: Any) -> float | None:
    """A learning rate; one that is a tensor on a device would have to be waited for."""
    if lr.__class__ is float:
        return lr
    if isinstance(lr, torch.Tensor):
        return float(lr.item()) if lr.device.type == "cpu" and lr.numel() == 1 else None
    return float(lr) if isinstance(lr, (int, float)) else None
