"""What is told of an optimizer with many parameter groups: the kinds of them, and the rates that differ."""

from __future__ import annotations

import pytest
import torch

from ntstop_probe.hooks.facts import describe_optimizer
from ntstop_probe.hooks.rates import MAX_GROUPS, rates


def one_group_a_tensor(scales: list[float]) -> torch.optim.Optimizer:
    groups = [{"params": [torch.nn.Parameter(torch.zeros(2))], "lr": 1e-3 * scale} for scale in scales]
    return torch.optim.AdamW(groups, weight_decay=0.1)


def test_groups_with_the_same_settings_are_told_as_one_and_none_that_differs_is_lost() -> None:
    optimizer = one_group_a_tensor([1.0] * 20 + [32.0] + [1.0] * 20)
    names = {id(group["params"][0]): f"layer.{index}" for index, group in enumerate(optimizer.param_groups)}
    told = describe_optimizer(optimizer, names)
    assert "more_groups" not in told
    assert [(group["params"], group["lr"], group["of"]) for group in told["groups"]] == [
        (40, pytest.approx(1e-3), ["layer.0", "layer.1", "layer.2"]),
        (1, pytest.approx(32e-3), ["layer.20"]),
    ]


def test_of_more_kinds_than_are_told_their_number_is() -> None:
    told = describe_optimizer(one_group_a_tensor([1.0 + index for index in range(20)]))
    assert len(told["groups"]) == 16 and told["more_groups"] == 4


def test_of_few_groups_every_rate_is_told() -> None:
    assert rates(one_group_a_tensor([1.0]).param_groups) == [1e-3]
    assert rates(one_group_a_tensor([1.0, 1.0, 2.0]).param_groups) == pytest.approx([1e-3, 1e-3, 2e-3])


def test_of_many_groups_the_rates_that_differ_are_told_wherever_they_stand() -> None:
    groups = one_group_a_tensor([1.0] * 30 + [32.0] + [1.0] * 9).param_groups
    assert rates(groups) == pytest.approx({0: 1e-3, 30: 32e-3})
    groups[30]["lr"] = 1.0
    assert rates(groups)[30] == 1.0, "as it is now"


def test_of_many_rates_the_lowest_and_the_highest_are_told() -> None:
    scales = [float((7 * index) % 41 + 1) for index in range(41)]
    told = list(told_after(one_group_a_tensor(scales), 1).values())
    assert 6 <= len(told) <= MAX_GROUPS
    assert min(told) == pytest.approx(1e-3) and max(told) == pytest.approx(41e-3)


def told_after(optimizer: torch.optim.Optimizer, calls: int) -> dict[int, float | None]:
    for _ in range(calls):
        told = rates(optimizer.param_groups)
    assert isinstance(told, dict)
    return told


def test_rates_that_come_to_differ_later_are_told_from_then_on() -> None:
    optimizer = one_group_a_tensor([0.0] * 12)
    assert list(told_after(optimizer, 3)) == [0]
    for index, group in enumerate(optimizer.param_groups):
        group["lr"] = 1e-3 * (index + 1)
    told = told_after(optimizer, 8)
    assert {0, 11} <= set(told) and len(told) == MAX_GROUPS - 1
    for group in optimizer.param_groups:
        group["lr"] = 1e-3
    assert set(told_after(optimizer, 1_000)) == set(told), "a curve goes on where rates meet again"


def test_another_optimizer_whose_groups_lie_where_others_lay_is_looked_at_anew() -> None:
    first = one_group_a_tensor([1.0] * 12)
    assert list(told_after(first, 1_000)) == [0]
    groups = first.param_groups
    groups[:] = one_group_a_tensor([1.0 + index for index in range(12)]).param_groups
    assert len(rates(groups)) > 1


def test_rates_that_a_schedule_has_not_lifted_yet_are_told_apart_by_what_they_will_be() -> None:
    optimizer = one_group_a_tensor([1.0] * 12 + [5.0])
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 10)
    assert list(told_after(optimizer, 1)) == [0, 12]
