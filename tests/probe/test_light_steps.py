"""Steps that are not timed: the same steps with the same losses, only without a duration and phases."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ntstop_probe.hooks.completion import LOSS_NAMES
from ntstop_probe.hooks.light import TrainingMachine
from ntstop_probe.hooks.readings import Readings
from ntstop_probe.progress import Progress
from ntstop_probe.rows import EventRow, PlainStep, StepRow, step_of

from .training import armed, loader, loss_of, mlp, train


class Loop:
    """A training loop told in words, as the wrappers tell it: the short way while the machine is light."""

    def __init__(self, interval: int) -> None:
        self.now = 100.0
        self.rows: list[StepRow] = []
        self.events: list[EventRow] = []
        self.progress = Progress()
        self.light = 0
        self.machine = machine = TrainingMachine(self._emit, self._put, self.events.append, self.progress)
        machine.timing_mask = machine.details_mask = interval - 1

    def _emit(self, row: StepRow, readings: Readings) -> None:
        for name, losses in zip(LOSS_NAMES, readings.losses, strict=False):
            numbers = [loss for loss in losses if isinstance(loss, float)]
            row.losses[name] = sum(numbers) / len(numbers)
        self.rows.append(row)

    def _put(self, plain: PlainStep) -> None:
        self.rows.append(step_of(plain))

    def pass_by(self, seconds: float = 1.0) -> float:
        self.now += seconds
        return self.now

    def fetch(self, iterator: str, grad: bool = True, batch: int | None = 4) -> None:
        machine = self.machine
        if not machine.light or not machine.next_light(self.now, iterator, grad):
            machine.next_begin(self.now, iterator, grad)
        self.pass_by()
        if not machine.light:
            machine.next_end(self.now, iterator)
        machine.batch = batch

    def exhaust(self, iterator: str) -> None:
        machine = self.machine
        if not machine.light or not machine.next_light(self.now, iterator, True):
            machine.next_begin(self.now, iterator, True)
        machine.next_end(self.pass_by(), iterator, exhausted=True)

    def backward(self, loss: float = 1.0) -> None:
        machine = self.machine
        self.pass_by(2.0)
        if machine.light:
            self.light += 1
            machine.backward_light(self.now, loss)
        else:
            machine.backward_begin(self.now, loss)
        self.pass_by(3.0)
        if not machine.light:
            machine.backward_end(self.now)

    def step(self, optimizer: str = "opt", nested: bool = False) -> None:
        machine = self.machine
        (machine.optimizer_light if machine.light else machine.optimizer_begin)(self.pass_by(0.5), optimizer)
        if nested:
            self.step(optimizer)
        self.pass_by()
        if machine.light:
            machine.optimizer_light_end(self.now)
        else:
            machine.optimizer_end(self.now, optimizer, [0.1])


def plain(loop: Loop, index: int) -> None:
    loop.fetch("train")
    loop.backward(float(index))
    loop.step()


def without_loader(loop: Loop, index: int) -> None:
    loop.backward(float(index))
    loop.step()


def accumulating(loop: Loop, index: int) -> None:
    for part in range(3):
        loop.fetch("train")
        loop.backward(float(index + part))
    loop.step()


def gan(loop: Loop, index: int) -> None:
    loop.fetch("train")
    gan_without_loader(loop, index)


def gan_without_loader(loop: Loop, index: int) -> None:
    loop.backward(float(index))
    loop.step("D")
    loop.backward(float(-index))
    loop.step("G")


def super_step(loop: Loop, index: int) -> None:
    loop.fetch("train")
    loop.backward(float(index))
    loop.step(nested=True)


def evaluating(loop: Loop, index: int) -> None:
    plain(loop, index)
    if index % 5 == 4:
        for _ in range(3):
            loop.fetch("val", grad=False)
            loop.pass_by(5.0)
        loop.exhaust("val")


def clearing(loop: Loop, index: int) -> None:
    for _ in range(index % 3):
        loop.machine.note_zero_grad()
    plain(loop, index)
    loop.machine.note_zero_grad()


def numbered(loop: Loop, index: int) -> None:
    loop.fetch("train")
    loop.machine.note_step(100 + loop.machine.ordinal, "trainer", 3)
    loop.backward(float(index))
    loop.step()


def unscaling(loop: Loop, index: int) -> None:
    plain(loop, index)
    loop.machine.note_scale(1024.0, False)


def backward_after_the_step(loop: Loop, index: int) -> None:
    plain(loop, index)
    loop.backward(-1.0)


def closures(loop: Loop, index: int) -> None:
    loop.fetch("train")
    loop.machine.optimizer_begin(loop.pass_by(), "lbfgs", closure=True)
    loop.backward(float(index))
    loop.backward(9.0)
    loop.machine.optimizer_end(loop.pass_by(), "lbfgs", [0.1])


def skipping(loop: Loop, index: int) -> None:
    loop.fetch("train")
    loop.backward(float(index))
    if index % 3 == 0:
        loop.machine.optimizer_skipped(loop.now, "opt")
    else:
        loop.step()


def phases(loop: Loop, index: int) -> None:
    plain(loop, index)
    if index % 4 == 1:
        loop.machine.phase_begin(loop.now, "eval")
        loop.fetch("val")
        loop.pass_by(7.0)
        loop.machine.phase_end(loop.now)


KINDS = [
    plain,
    without_loader,
    accumulating,
    gan,
    gan_without_loader,
    super_step,
    evaluating,
    clearing,
    numbered,
    unscaling,
    backward_after_the_step,
    closures,
    skipping,
    phases,
]


def rows(kind: Callable[[Loop, int], None], interval: int, steps: int = 40, epoch: int = 10) -> Loop:
    loop = Loop(interval)
    for index in range(steps):
        kind(loop, index)
        if index % epoch == epoch - 1 and kind not in (without_loader, gan_without_loader):
            loop.exhaust("train")
    loop.machine.finish(loop.now)
    return loop


@pytest.mark.parametrize("interval", [2, 4, 16])
@pytest.mark.parametrize("kind", KINDS)
def test_the_steps_are_the_same_and_the_timed_ones_are_timed_alike(
    kind: Callable[[Loop, int], None], interval: int
) -> None:
    full, thin = rows(kind, 1), rows(kind, interval)
    assert len(thin.rows) == len(full.rows) == 40
    for one, other in zip(full.rows, thin.rows, strict=True):
        assert (one.ordinal, one.t, one.losses, one.micro, one.optimizers, one.samples, one.epoch, one.skipped) == (
            other.ordinal, other.t, other.losses, other.micro, other.optimizers, other.samples, other.epoch,
            other.skipped,
        )  # fmt: skip
        assert (one.zero_grads, one.step, one.step_source) == (other.zero_grads, other.step, other.step_source)
        if other.ordinal % interval:
            assert (other.duration, other.phases) == (None, {})
        else:
            assert other.duration == pytest.approx(one.duration)
            assert other.phases == pytest.approx(one.phases)
    assert [event.kind for event in thin.events] == [event.kind for event in full.events]
    if interval >= 4 and kind is not closures:
        assert thin.light > 0, "nothing went the short way"


@pytest.mark.parametrize("interval", [1, 2, 4, 16])
def test_a_loader_that_fetches_a_batch_ahead_ends_its_epochs_at_the_same_steps(interval: int) -> None:
    loop = Loop(interval)
    for iterator in ("first", "second", "third"):
        loop.fetch(iterator)
        for index in range(20):
            loop.fetch(iterator) if index < 19 else loop.exhaust(iterator)
            loop.backward(float(index))
            loop.step()
    loop.machine.finish(loop.now)
    assert [row.epoch for row in loop.rows] == [0] * 20 + [1] * 20 + [2] * 20
    assert [event.ordinal for event in loop.events if event.kind == "epoch"] == [20, 40, 60]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from([1, 2, 4, 8])), min_size=1, max_size=30))
def test_loops_of_all_kinds_after_each_other_lose_no_step(
    parts: list[tuple[Callable[[Loop, int], None], int]],
) -> None:
    full, thin = Loop(1), Loop(1)
    for index, (kind, interval) in enumerate(parts):
        thin.machine.timing_mask = interval - 1
        for loop in (full, thin):
            kind(loop, index)
    for loop in (full, thin):
        loop.machine.finish(loop.now)
        assert [row.ordinal for row in loop.rows] == list(range(len(loop.rows)))
        timed = [row for row in loop.rows if row.duration is not None]
        assert all(sum(row.phases.values()) <= (row.duration or 0.0) + 1e-9 for row in timed)
    assert sum(row.optimizers or 0 for row in thin.rows) == sum(row.optimizers or 0 for row in full.rows)
    assert sum(row.micro or 0 for row in thin.rows) == sum(row.micro or 0 for row in full.rows)


def test_where_the_loop_stands_is_told_in_a_light_step_too() -> None:
    loop = Loop(64)
    for index in range(3):
        plain(loop, index)
    machine, progress = loop.machine, loop.progress
    assert machine.next_light(loop.pass_by(), "train", True)
    assert (progress.phase, progress.since) == ("data", loop.now)
    machine.backward_light(loop.pass_by(), 1.0)
    assert (progress.phase, progress.since) == ("backward", loop.now)
    machine.optimizer_light(loop.pass_by(), "opt")
    assert (progress.phase, progress.since) == ("optimizer", loop.now)


def test_a_real_training_that_is_not_timed_has_its_losses_and_a_nan_is_looked_into() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with armed() as probe:
        budget = probe.hooks._hooks.budget
        machine = probe.hooks._hooks.machine
        machine.timing_mask = machine.details_mask = 63
        losses = train(model, optimizer, loader(320))
        budget.norms.steps = 4_096
        batch = next(iter(loader(8)))
        (loss_of(model, batch) * float("nan")).backward()
        optimizer.step()
    steps = probe.steps
    assert [step.losses["loss"] for step in steps[:-1]] == losses
    assert [step.ordinal for step in steps if step.duration is not None] == [0]
    assert [step.lrs for step in steps[:2]] == [{"lr": 0.01}, {}]
    assert [step.samples for step in steps] == [8 * index for index in range(1, 42)]
    assert probe.layers[-1].ordinal == 40
    assert probe.layers[-1].fields["grad_nonfinite"] == [1.0] * 4
    assert probe.progress.disabled == []


def test_what_nobody_takes_away_does_not_pile_up() -> None:
    model = mlp()
    with armed() as probe:
        hooks = probe.hooks._hooks
        probe.outbox._capacity = 20
        hooks.machine.timing_mask = hooks.machine.details_mask = 15
        train(model, torch.optim.SGD(model.parameters(), lr=0.01), loader(800))
        assert 20 <= len(probe.outbox) <= 20 + 16
        assert probe.outbox.dropped > 50
