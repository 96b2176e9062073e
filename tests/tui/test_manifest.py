"""The contract of a run in words: its optimizers and its learning rates."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from ntstop.run.state import RunState
from ntstop.tui.widgets.manifest import manifest_entries
from ntstop_probe.wire import Manifest, Steps

from ..monitor.writer import column
from . import feed


def told(optimizer: dict[str, Any], lrs: dict[str, float] | None = None) -> dict[str, str]:
    """The words of each line."""
    state = RunState()
    hello = structs.replace(feed.hello(), manifest=Manifest(optimizers=[optimizer]))
    state.apply(1, hello)
    if lrs:
        columns = {name: column("f8", [rate]) for name, rate in lrs.items()}
        state.apply(1, Steps(count=1, ordinal=0, t=column("f8", [1.0]), lrs=columns))
    return {entry.label: entry.text for entry in manifest_entries(state.processes[1], hello)}


def schedule(state: RunState) -> str:
    entries = manifest_entries(state.processes[1], feed.hello())
    return next(entry.text for entry in entries if entry.label == "schedule")


def test_the_schedule_that_is_told_stays_put_while_the_run_goes_on() -> None:
    """A warmup of 50 steps, then on the level, then down: told by its first and its highest value, as measured."""
    state = RunState()
    state.apply(1, feed.hello())
    rates = [min(2e-5 * (step + 1), 1e-3) if step < 9_000 else 5e-4 for step in range(10_000)]
    heard = []
    for begin in range(0, len(rates), 100):
        block = rates[begin : begin + 100]
        times = column("f8", [float(begin + step) for step in range(len(block))])
        state.apply(1, Steps(count=len(block), ordinal=begin, t=times, lrs={"lr": column("f8", block)}))
        heard.append(schedule(state))
    assert set(heard[:90]) == {"from 2.00e-5 up to 1.00e-3 at step 49"}
    assert set(heard[90:]) == {"from 2.00e-5 up to 1.00e-3 at step 49, then down to 5.00e-4"}


USUAL = {"params": 49, "of": ["embed.weight", "blocks.0.up.weight", "blocks.0.up.bias"], "lr": 1e-3}


def test_of_an_optimizer_the_usual_settings_are_told_and_what_is_different_where() -> None:
    groups = [
        {"params": 4, "of": ["a.down.weight", "b.down.weight", "c.down.weight"], "lr": 2e-3, "weight_decay": 0.1},
        {**USUAL, "weight_decay": 0.1, "betas": [0.9, 0.999]},
        {"params": 1, "of": ["head.weight"], "lr": 3.2e-2, "weight_decay": 0.0, "betas": [0.9, 0.999]},
    ]
    assert told({"class": "AdamW", "groups": groups, "more_groups": 2})["optimizer"] == (
        "AdamW lr 0.001, weight_decay 0.1, betas 0.9/0.999 of 49 tensors; "
        "lr 0.002 of a.down.weight, b.down.weight, c.down.weight and 1 more; "
        "lr 0.032, weight_decay 0 of head.weight; 2 more kinds"
    )


def test_an_optimizer_with_one_kind_of_group_is_its_class_and_settings() -> None:
    assert told({"class": "SGD", "groups": [{"params": 9, "lr": 0.1, "nesterov": False}]})["optimizer"] == "SGD lr 0.1"
    assert told({"class": "MyOwn"})["optimizer"] == "MyOwn"


def test_groups_of_older_recordings_that_are_alike_are_no_kinds_of_their_own() -> None:
    groups = [{"params": 3, "lr": 0.1}, {"params": 5, "lr": 0.2}, {"params": 3, "lr": 0.1}]
    assert told({"class": "SGD", "groups": groups})["optimizer"] == "SGD lr 0.1 of 6 tensors; lr 0.2 of 5 tensors"


def test_rates_that_are_alike_are_told_once() -> None:
    rates = {"lr": 1e-3, "lr/0.1": 1e-3, "lr/0.2": 1e-3, "lr/0.16": 3.2e-2}
    assert told({"class": "AdamW"}, rates)["rate now"] == "lr and 2 more 1.00e-3, lr/0.16 0.0320"
