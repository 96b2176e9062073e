"""What can be told about the training from the objects that pass by, for the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_GROUPS = 16
"""Kinds of parameter groups described per optimizer."""
MAX_NAMES = 3
"""Parameters named of each kind."""

_NAMELESS: Mapping[int, str] = {}
_GROUP_KEYS = ("lr", "weight_decay", "momentum", "betas", "eps", "nesterov", "amsgrad", "fused", "foreach")


@dataclass(slots=True)
class ModelFacts:
    """Filled in as it is seen, on the training thread; None: not seen yet. `version` rises with every change."""

    trainable_parameters: int | None = None
    """Elements, over the watched or found model and everything an optimizer holds."""
    frozen_parameters: int | None = None
    optimizers: list[dict[str, Any]] = field(default_factory=list)
    """One an optimizer, see `describe_optimizer`."""
    precision: str | None = None
    """Parameter dtype, and autocast's when it was on at the backward: "float32", "float32, autocast bfloat16"."""
    autocast: str | None = None
    """Dtypes that autocast computed the first loss in, joined by a comma; "": none other than the parameters'."""
    batch_size: int | None = None
    """Leading dimension of the first tensor in the first training batch."""
    workers: int | None = None
    """Worker processes of the training DataLoader."""
    version: int = 0


def describe_optimizer(optimizer: Any, names: Mapping[int, str] = _NAMELESS) -> dict[str, Any]:
    """{"class": str, "groups": [{"params": tensors, "of": their first names, "lr": .., ..}]}, as plain values.

    Groups that differ in nothing but what they hold are told as one: some recipes make one a tensor. `names`: of the
    parameters, by id. "more_groups": how many kinds are left out.
    """
    told: dict[str, dict[str, Any]] = {}
    for group in optimizer.param_groups:
        settings = _settings_of(group)
        known = told.setdefault(repr(settings), {"params": 0, "of": [], **settings})
        known["params"] += len(group["params"])
        fresh = [names[id(parameter)] for parameter in group["params"][:MAX_NAMES] if id(parameter) in names]
        known["of"] = [*known["of"], *fresh][:MAX_NAMES]
    groups = list(told.values())
    described: dict[str, Any] = {"class": type(optimizer).__name__, "groups": groups[:MAX_GROUPS]}
    if len(groups) > MAX_GROUPS:
        described["more_groups"] = len(groups) - MAX_GROUPS
    return described


def _settings_of(group: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {}
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
