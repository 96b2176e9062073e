"""Learning rates of an optimizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from .ledger import Rates

MAX_GROUPS = 8
"""Learning rates a step per optimizer: some recipes make a group for every tensor."""
MAX_LISTS = 64
"""Lists of groups that are remembered: a job that makes optimizers all the time has many."""
LOOK_EVERY = 256
"""Calls from one look at all groups of many to the next, at most: 0.2 ms at a thousand groups."""


def rates(groups: Any) -> Rates:
    """Of a few parameter groups all rates, of many those that `Choice` finds."""
    if len(groups) == 1:
        lr = groups[0].get("lr")
        return [lr if lr.__class__ is float else _number(lr)]
    if len(groups) <= MAX_GROUPS:
        return [_number(group.get("lr")) for group in groups]
    choice = _choices.get(id(groups))
    if choice is None or choice.first != id(groups[0]) or choice.count != len(groups):
        if len(_choices) >= MAX_LISTS:
            _choices.clear()
        choice = _choices[id(groups)] = Choice(id(groups[0]), len(groups))
    choice.look(groups)
    return {index: _number(groups[index].get("lr")) for index in choice.told}


@dataclass(slots=True)
class Choice:
    """Which of many groups are told: the first, and of those with different rates evenly spread ones, the extremes
    among them. It is looked for again, ever more seldom, and changes only where more rates differ than before: before
    a schedule has lifted them all may be 0."""

    first: int
    """Id of the first group: a list of another optimizer may come to lie where one was."""
    count: int
    told: tuple[int, ...] = (0,)
    _different: int = 0
    _calls: int = 0
    _due: int = 1

    def look(self, groups: Any) -> None:
        """Called for each step whose rates are told."""
        self._calls += 1
        if self._calls < self._due:
            return
        self._due = self._calls + min(self._calls, LOOK_EVERY)
        different: dict[float, int] = {}
        for index, group in enumerate(groups):
            rate = _number(group.get("initial_lr", group.get("lr")))
            if rate is not None:
                different.setdefault(rate, index)
        if len(different) <= self._different:
            return
        self._different = len(different)
        places, most = [different[rate] for rate in sorted(different)], MAX_GROUPS - 1
        if len(places) > most:
            places = [places[round(step * (len(places) - 1) / (most - 1))] for step in range(most)]
        self.told = tuple(sorted({0, *places}))


_choices: dict[int, Choice] = {}
"""By id of the list of groups."""


def _number(lr: Any) -> float | None:
    """A learning rate; one that is a tensor on a device would have to be waited for."""
    if lr.__class__ is float:
        return lr
    if isinstance(lr, torch.Tensor):
        return float(lr.item()) if lr.device.type == "cpu" and lr.numel() == 1 else None
    return float(lr) if isinstance(lr, (int, float)) else None
