"""What can be told about the training from the objects that pass by, for the manifest."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MAX_GROUPS = 16
"""Parameter groups described per optimizer: some recipes make one a tensor."""

_GROUP_KEYS = ("lr", "weight_decay", "momentum", "betas", "eps", "nesterov", "amsgrad", "fused", "foreach")


@dataclass(slots=True)
class ModelFacts:
    """Filled in as it is seen, on the training thread; None: not seen yet. `version` rises with every change."""

    trainable_parameters: int | None = None
    """Elements, over the watched or found model and everything an optimizer holds."""
    frozen_parameters: int | None = None
    optimizers: list[dict[str, Any]] = field(default_factory=list)
    """One an optimizer: {"class": str, "groups": [{"lr": .., "params": tensors, ..}]}."""
    precision: str | None = None
    """Parameter dtype, and autocast's when it was on at the backward: "float32", "float32, autocast bfloat16"."""
    autocast: str | None = None
    """Dtypes that autocast computed the first loss in, joined by a comma; "": none other than the parameters'."""
    batch_size: int | None = None
    """Leading dimension of the first tensor in the first training batch."""
    workers: int | None = None
    """Worker processes of the training DataLoader."""
    version: int = 0


def describe_optimizer(optimizer: Any) -> dict[str, Any]:
    """Class and hyperparameters, as plain values."""
    groups = [_describe_group(group) for group in optimizer.param_groups[:MAX_GROUPS]]
    described: dict[str, Any] = {"class": type(optimizer).__name__, "groups": groups}
    if len(optimizer.param_groups) > MAX_GROUPS:
        described["more_groups"] = len(optimizer.param_groups) - MAX_GROUPS
    return described


def _describe_group(group: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {"params": len(group["params"])}
    for key in _GROUP_KEYS:
        value = group.get(key)
        if isinstance(value, tuple):
            value = list(value)
        if isinstance(value, (bool, int, float, str)) or (
            isinstance(value, list) and all(isinstance(item, (int, float)) for item in value)
        ):
            described[key] = value
    return described


def leading_dimension(batch: Any, depth: int = 3) -> int | None:
    """Length of the first tensor found in a batch of nested lists, tuples and dicts; None when there is none."""
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else None
    if depth == 0:
        return None
    if isinstance(batch, dict):
        items = list(batch.values())
    elif isinstance(batch, (list, tuple)):
        items = list(batch[:4])
    else:
        return None
    for item in items:
        found = leading_dimension(item, depth - 1)
        if found is not None:
            return found
    return None
