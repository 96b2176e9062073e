"""What a heartbeat says of the loop beyond its phase: backwards without a step, and models left in evaluation mode."""

from __future__ import annotations

import gc

import pytest
import torch
from torch import nn

from ntstop_probe.hooks.budget import Budget
from ntstop_probe.hooks.modes import TrainedModels
from ntstop_probe.progress import Progress
from ntstop_probe.pulse import Pulse
from ntstop_probe.wire import Heartbeat

from .test_light_steps import Loop
from .training import armed, loader, loss_of, mlp, train


def beat(pulse: Pulse) -> Heartbeat:
    return pulse.beat(dropped=0, unrecorded=0, viewers=0, disabled=[])


def test_backwards_since_the_last_optimizer_step_are_counted() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with armed() as run:
        for batch in loader(80):
            loss_of(model, batch).backward()
        assert beat(Pulse(run.progress)).backwards == 10
        optimizer.step()
        assert beat(Pulse(run.progress)).backwards == 0
        loss_of(model, next(iter(loader()))).backward()
        assert beat(Pulse(run.progress)).backwards == 1


def test_backwards_are_counted_in_light_steps_too() -> None:
    loop = Loop(interval=64)
    for _ in range(5):
        loop.fetch("train")
        loop.backward()
        loop.step()
    for expected in (1, 2, 3):
        loop.fetch("train")
        loop.backward()
        assert loop.machine.light and loop.progress.pending() == expected
    loop.step()
    assert loop.progress.pending() == 0


def test_a_model_is_evaluating_when_its_root_is() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Dropout(0.0))
    modes = TrainedModels([model])
    assert modes.sensitive == 2, "a dropout of 0 does the same in both modes"
    model[1].eval()
    assert modes.evaluating() is False, "a frozen batch norm in a model that trains is meant"
    model.eval()
    assert modes.evaluating() is True
    other = mlp()
    assert TrainedModels([model, other]).evaluating() is False
    del model
    gc.collect()
    assert modes.evaluating() is None


def test_the_models_of_the_optimizers_are_found() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with armed() as run:
        train(model, optimizer, loader())
        modes = run.progress.modes
        assert modes is not None and (modes.sensitive, modes.evaluating()) == (1, False)
        model.eval()
        assert modes.evaluating() is True


def test_a_loss_that_is_not_finite_has_its_weights_looked_at_whatever_the_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Budget, "with_parameters", False)
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with armed() as run:
        for step, (inputs, targets) in enumerate(loader(80)):
            optimizer.zero_grad()
            loss = loss_of(model, (inputs, targets))
            (loss * float("nan") if step == 9 else loss).backward()
            optimizer.step()
    by_step = {row.ordinal: row.fields for row in run.layers}
    assert "param_norm" not in by_step[8] and "param_norm" in by_step[9]


def test_a_part_that_is_thawed_and_in_no_optimizer_is_told_as_such() -> None:
    model = mlp()
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD(model[3].parameters(), lr=0.1)
    with armed(budget=1.0) as run:
        train(model, optimizer, loader(80))
        model[0].requires_grad_(True)
        train(model, optimizer, loader(80))
    first, second = run.schemas
    assert (first.frozen[:2], second.frozen[:2], second.in_optimizer[:2]) == (
        [True, True],
        [False, False],
        [False, False],
    )


def test_a_beat_tells_since_when_a_model_was_seen_in_evaluation_mode() -> None:
    model, progress = mlp(), Progress()
    pulse = Pulse(progress)
    progress.modes = TrainedModels([model])
    pulse.glance()
    assert beat(pulse).looks == 0, "before training nothing is known"
    progress.phase, progress.steps = "backward", 10
    pulse.glance()
    model.eval()
    for progress.steps in (20, 30):
        pulse.glance()
    told = beat(pulse)
    assert (told.looks, told.eval_looks, told.eval_since, told.sensitive) == (3, 2, 20, 1)
    progress.phase = "eval"
    pulse.glance()
    assert (beat(pulse).looks, beat(pulse).eval_since) == (0, 20), "an evaluation is no training"
    model.train()
    progress.phase = "optimizer"
    pulse.glance()
    assert beat(pulse).eval_since is None
