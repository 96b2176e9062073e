"""Learning rates of an optimizer."""

from __future__ import annotations

from typing import Any

import torch

MAX_GROUPS = 8
"""Learning rates a step per optimizer: some recipes make a group for every tensor."""
MAX_LISTS = 64
"""Lists of groups that are remembered: a job that makes optimizers all the time has many."""


def rates(groups: Any) -> list[float | None]:
    """One a parameter group, up to the last that is told; None where it is not, or would have to be waited for."""
    if len(groups) == 1:
        lr = groups[0].get("lr")
        return [lr if lr.__class__ is float else _number(lr)]
    if len(groups) <= MAX_GROUPS:
        return [_number(group.get("lr")) for group in groups]
    told = _told(groups)
    return [_number(groups[index].get("lr")) if index in told else None for index in range(max(told) + 1)]


_chosen: dict[int, tuple[int, frozenset[int]]] = {}
"""By id of a list of groups: how many they were, and which are told."""


def _told(groups: Any) -> frozenset[int]:
    """Of many groups: the first, and of those with different rates evenly spread ones, the extremes among them."""
    known = _chosen.get(id(groups))
    if known is not None and known[0] == len(groups):
        return known[1]
    different: dict[float, int] = {}
    for index, group in enumerate(groups):
        # Before a schedule has lifted them all rates may be 0.
        rate = _number(group.get("initial_lr", group.get("lr")))
        if rate is not None:
            different.setdefault(rate, index)
    places = [different[rate] for rate in sorted(different)]
    most = MAX_GROUPS - 1
    if len(places) > most:
        places = [places[round(step * (len(places) - 1) / (most - 1))] for step in range(most)]
    if len(_chosen) >= MAX_LISTS:
        _chosen.clear()
    _chosen[id(groups)] = len(groups), frozenset([0, *places])
    return _chosen[id(groups)][1]


def _number(lr: Any) -> float | None:
    """A learning rate; one that is a tensor on a device would have to be waited for."""
    if lr.__class__ is float:
        return lr
    if isinstance(lr, torch.Tensor):
        return float(lr.item()) if lr.device.type == "cpu" and lr.numel() == 1 else None
    return float(lr) if isinstance(lr, (int, float)) else None
