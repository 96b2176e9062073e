"""Where steps begin and end, on sequences of events with a clock of our own."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ntstop_probe.hooks.completion import LOSS_NAMES
from ntstop_probe.hooks.readings import Readings
from ntstop_probe.hooks.steps import MAX_REPEATS, StepMachine
from ntstop_probe.progress import Progress
from ntstop_probe.rows import EventRow, StepRow


class Loop:
    """A training loop told in words: each event moves the clock by one second (or as many as it is told)."""

    def __init__(self) -> None:
        self.now = 100.0
        self.rows: list[StepRow] = []
        self.events: list[EventRow] = []
        self.progress = Progress()
        self.machine = StepMachine(self._emit, self.events.append, self.progress)

    def _emit(self, row: StepRow, readings: Readings) -> None:
        for index, losses in enumerate(readings.losses):
            numbers = [loss for loss in losses if isinstance(loss, float)]
            row.losses[LOSS_NAMES[index]] = sum(numbers) / len(numbers)
        self.rows.append(row)

    def wait(self, seconds: float = 1.0) -> Loop:
        self.now += seconds
        return self

    def fetch(self, iterator: str = "train", grad: bool = True, seconds: float = 1.0) -> Loop:
        self.machine.next_begin(self.now, iterator, grad)
        self.now += seconds
        self.machine.next_end(self.now, iterator)
        return self

    def exhaust(self, iterator: str = "train", grad: bool = True) -> Loop:
        self.machine.next_begin(self.now, iterator, grad)
        self.now += 1.0
        self.machine.next_end(self.now, iterator, exhausted=True)
        return self

    def backward(self, loss: float = 1.0, forward: float = 2.0, seconds: float = 3.0) -> Loop:
        self.now += forward
        self.machine.backward_begin(self.now, loss)
        self.now += seconds
        self.machine.backward_end(self.now)
        return self

    def step(self, optimizer: str = "opt", lrs: list[float | None] | None = None, before: float = 0.5) -> Loop:
        self.now += before
        self.machine.optimizer_begin(self.now, optimizer)
        self.now += 1.0
        self.machine.optimizer_end(self.now, optimizer, lrs)
        return self

    def finish(self) -> list[StepRow]:
        self.machine.finish(self.now)
        return self.rows


def test_a_step_closes_at_the_next_fetch_and_every_second_is_in_one_phase() -> None:
    loop = Loop()
    for loss in (5.0, 4.0, 3.0):
        loop.fetch().backward(loss).step(lrs=[0.1, 0.2]).wait(0.25)
    loop.exhaust()
    first, second, third = loop.finish()
    assert [first.losses, second.losses, third.losses] == [{"loss": 5.0}, {"loss": 4.0}, {"loss": 3.0}]
    assert first.phases == {"data": 1.0, "forward": 2.0, "backward": 3.0, "other": 0.75, "optimizer": 1.0}
    assert first.duration == second.duration == third.duration == 7.75
    assert second.t - first.t == 7.75
    assert second.lrs == {"lr": 0.1, "lr/0.1": 0.2}
    assert (second.micro, second.optimizers, second.ordinal) == (1, 1, 1)


def test_the_exhausting_next_is_no_fetch_and_ends_the_epoch() -> None:
    loop = Loop()
    loop.fetch().backward().step().exhaust().wait(4.0)
    loop.fetch("second epoch").backward().step()
    first, second = loop.finish()
    assert first.phases["data"] == 1.0
    assert second.phases["data"] == 1.0
    assert second.phases["other"] == 1.0 + 4.0 + 0.5
    assert [row.epoch for row in (first, second)] == [0, 1]
    assert [event.kind for event in loop.events] == ["epoch"]


def test_without_a_loader_a_step_is_cut_before_the_input_of_the_next() -> None:
    loop = Loop()
    for loss in (5.0, 4.0, 3.0):
        loop.backward(loss).step()
    rows = loop.finish()
    assert [row.losses["loss"] for row in rows] == [5.0, 4.0, 3.0]
    # The first step begins with the first event that is seen: its forward had passed by then.
    assert rows[0].phases == {"backward": 3.0, "other": 0.5, "optimizer": 1.0}
    assert rows[1].phases == {"input+forward": 2.0, "backward": 3.0, "other": 0.5, "optimizer": 1.0}
    assert rows[1].duration == 6.5


def test_accumulation_is_one_step_of_several_micro_batches_with_the_loss_averaged() -> None:
    loop = Loop()
    for _ in range(2):
        for loss in (1.0, 2.0, 6.0):
            loop.fetch().backward(loss)
        loop.step()
    loop.exhaust()
    rows = loop.finish()
    assert [row.micro for row in rows] == [3, 3]
    assert [row.losses for row in rows] == [{"loss": 3.0}, {"loss": 3.0}]
    assert rows[0].phases["data"] == 3.0


def test_accumulation_without_a_loader_keeps_its_micro_batches_together() -> None:
    loop = Loop()
    for _ in range(3):
        loop.backward(1.0).backward(3.0).step()
    rows = loop.finish()
    assert [(row.micro, row.losses["loss"]) for row in rows] == [(2, 2.0)] * 3


@pytest.mark.parametrize("loader", [True, False])
def test_a_gan_iteration_is_one_step_with_two_losses(loader: bool) -> None:
    loop = Loop()
    for _ in range(3):
        if loader:
            loop.fetch()
        loop.backward(0.7).step("D", [0.1]).backward(1.5).step("G", [0.2])
    if loader:
        loop.exhaust()
    rows = loop.finish()
    assert len(rows) == 3
    assert [row.losses for row in rows] == [{"loss": 0.7, "loss/1": 1.5}] * 3
    assert rows[1].lrs == {"lr": 0.1, "lr/1.0": 0.2}
    assert rows[1].optimizers == 2


def test_two_optimizers_of_one_backward_share_its_loss() -> None:
    loop = Loop()
    for _ in range(3):
        loop.fetch().backward(0.7).step("muon").step("adamw")
    rows = loop.finish()
    assert [row.losses for row in rows] == [{"loss": 0.7}] * 3


def test_a_critic_stepped_several_times_on_one_batch_is_still_one_step() -> None:
    loop = Loop()
    for _ in range(2):
        loop.fetch()
        for _ in range(5):
            loop.backward(0.5).step("critic")
        loop.backward(0.1).step("generator")
    loop.exhaust()
    assert [row.optimizers for row in loop.finish()] == [6, 6]


def test_a_loader_that_gave_the_whole_data_set_at_once_does_not_make_one_endless_step() -> None:
    loop = Loop()
    loop.fetch()
    for _ in range(200):
        loop.backward().step()
    rows = loop.finish()
    assert rows[0].optimizers == MAX_REPEATS + 1
    assert len(rows) == 200 - MAX_REPEATS


def test_a_closure_is_backward_inside_the_optimizer_and_the_first_loss_counts() -> None:
    loop = Loop()
    machine = loop.machine
    for _ in range(2):
        loop.fetch()
        machine.optimizer_begin(loop.now, "lbfgs", closure=True)
        loop.backward(9.0).backward(5.0).wait()
        machine.optimizer_end(loop.now, "lbfgs")
    loop.exhaust()
    rows = loop.finish()
    assert [row.losses for row in rows] == [{"loss": 9.0}] * 2
    assert rows[1].micro == 2
    assert rows[1].phases == {"data": 1.0, "backward": 6.0, "optimizer": 5.0}


def test_a_step_that_calls_its_super_step_counts_once() -> None:
    loop = Loop()
    for _ in range(2):
        loop.fetch().backward()
        loop.machine.optimizer_begin(loop.now, "opt")
        loop.step("opt")
        loop.machine.optimizer_end(loop.now, "opt")
    rows = loop.finish()
    assert [row.optimizers for row in rows] == [1, 1]


def test_an_optimizer_that_raised_does_not_swallow_the_steps_after_it() -> None:
    loop = Loop()
    loop.fetch().backward()
    loop.machine.optimizer_begin(loop.now, "opt")
    for _ in range(2):
        loop.wait().fetch().backward().step()
    loop.exhaust()
    assert len(loop.finish()) == 2


@pytest.mark.parametrize("grad", [True, False])
def test_an_evaluation_between_steps_is_not_the_data_time_of_a_training_step(grad: bool) -> None:
    loop = Loop()
    for _ in range(2):
        loop.fetch().backward().step()
    for _ in range(3):
        loop.fetch("val", grad, seconds=10.0).wait(5.0)
    loop.exhaust("val", grad)
    for _ in range(2):
        loop.fetch().backward().step()
    loop.exhaust()
    rows = loop.finish()
    assert [row.phases["data"] for row in rows] == [1.0] * 4
    assert [row.phases["forward"] for row in rows] == [2.0] * 4
    assert rows[2].phases["eval"] == pytest.approx(46.0)
    assert "eval" not in rows[1].phases
    assert [(event.kind, event.duration) for event in loop.events] == [("evaluation", 46.0), ("epoch", None)]


def test_an_evaluation_that_stops_half_way_is_recognised_when_training_goes_on() -> None:
    loop = Loop()
    loop.fetch().backward().step()
    loop.fetch("val").wait().fetch("val").wait()
    loop.fetch().backward().step()
    rows = loop.finish()
    assert rows[1].phases["eval"] == 4.0
    assert rows[1].phases["data"] == 1.0


def test_the_phase_is_eval_while_an_evaluation_runs() -> None:
    loop = Loop()
    loop.fetch().backward().step()
    loop.fetch("val", grad=False)
    assert loop.progress.phase == "eval"


def test_two_loaders_read_side_by_side_are_both_training() -> None:
    loop = Loop()
    for _ in range(4):
        loop.fetch("labeled").fetch("unlabeled").backward().step()
    rows = loop.finish()
    assert [row.phases["data"] for row in rows] == [2.0] * 4
    assert not loop.events


def test_a_batch_fetched_ahead_is_training() -> None:
    loop = Loop()
    loop.fetch()
    for _ in range(3):
        loop.fetch().backward().step()
    rows = loop.finish()
    assert [row.phases["data"] for row in rows] == [2.0, 1.0, 1.0]
    assert not loop.events


def test_a_phase_the_user_names_takes_its_time_and_its_fetches() -> None:
    loop = Loop()
    loop.fetch().backward().step()
    loop.machine.phase_begin(loop.now, "eval")
    assert loop.progress.phase == "eval"
    loop.fetch("val").wait().fetch("val").wait()
    loop.machine.phase_end(loop.now)
    loop.fetch().backward().step()
    first, second = loop.finish()
    assert first.phases["eval"] == 4.0
    assert [(event.kind, event.duration) for event in loop.events] == [("evaluation", 4.0)]
    assert second.phases["data"] == 1.0


def test_training_inside_a_named_phase_is_still_training() -> None:
    loop = Loop()
    loop.machine.phase_begin(loop.now, "train")
    for _ in range(3):
        loop.fetch().backward().step()
    loop.machine.phase_end(loop.now)
    assert len(loop.finish()) == 3


def test_a_step_that_a_gradient_scaler_skipped_is_a_step_marked_as_skipped() -> None:
    loop = Loop()
    loop.fetch().backward().step()
    loop.fetch().backward()
    loop.machine.optimizer_skipped(loop.now, "opt")
    loop.machine.note_scale(65536.0, True)
    loop.fetch().backward().step()
    loop.machine.note_scale(32768.0, False)
    rows = loop.finish()
    assert [row.skipped for row in rows] == [None, 1, 0]
    assert [row.micro for row in rows] == [1, 1, 1]


def test_no_steps_at_all_give_no_rows() -> None:
    loop = Loop()
    assert loop.finish() == []
    loop.fetch().wait().fetch().exhaust()
    assert loop.finish() == []


def test_progress_tells_where_the_loop_stands() -> None:
    loop = Loop()
    loop.machine.next_begin(loop.now, "train")
    assert (loop.progress.phase, loop.progress.since) == ("data", loop.now)
    loop.machine.next_end(loop.now, "train")
    assert loop.progress.phase == "forward"
    loop.machine.backward_begin(loop.now, 1.0)
    assert loop.progress.phase == "backward"
    loop.machine.backward_end(loop.now)
    loop.machine.optimizer_begin(loop.now, "opt")
    assert loop.progress.phase == "optimizer"
    loop.machine.optimizer_end(loop.now, "opt")
    loop.machine.next_begin(loop.now, "train")
    assert loop.progress.steps == 1
    loop.finish()
    assert loop.progress.phase == "idle"


ITERATORS = st.sampled_from(["a", "b", "c"])
EVENTS = st.one_of(
    st.tuples(st.just("next_begin"), ITERATORS, st.booleans()),
    st.tuples(st.just("next_end"), ITERATORS, st.booleans(), st.booleans()),
    st.tuples(st.just("backward_begin"), st.floats(0, 10)),
    st.tuples(st.just("backward_end")),
    st.tuples(st.just("optimizer_begin"), ITERATORS, st.booleans()),
    st.tuples(st.just("optimizer_end"), ITERATORS),
    st.tuples(st.just("optimizer_skipped"), ITERATORS),
    st.tuples(st.just("phase_begin"), st.sampled_from(["eval", "checkpoint", "mine"])),
    st.tuples(st.just("phase_end")),
    st.tuples(st.just("own_work")),
    st.tuples(st.just("finish")),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(EVENTS, st.floats(0, 5)), max_size=60))
def test_whatever_happens_phases_add_up_and_steps_are_numbered_without_a_gap(
    history: list[tuple[tuple[object, ...], float]],
) -> None:
    rows: list[StepRow] = []
    machine = StepMachine(lambda row, _: rows.append(row), lambda _: None, Progress())
    now = 0.0
    for (name, *arguments), seconds in history:
        now += seconds
        getattr(machine, str(name))(now, *arguments)
    machine.finish(now)
    assert [row.ordinal for row in rows] == list(range(len(rows)))
    ends = [row.t for row in rows]
    assert ends == sorted(ends)
    for row in rows:
        assert row.duration is not None
        assert row.duration >= 0
        assert math.isclose(sum(row.phases.values()), row.duration, abs_tol=1e-9)
        assert all(seconds >= 0 for seconds in row.phases.values())
        assert row.optimizers is not None
        assert row.optimizers > 0
