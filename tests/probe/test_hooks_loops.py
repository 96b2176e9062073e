"""Loops that are not the ordinary one: two models in turn, no step ever, the job's own count of its steps."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ntstop_probe.hooks.axis import TRAINER, USER, StepAxis
from ntstop_probe.pulse import missing_step

from .training import armed, loader, loss_of, mlp, train


def test_two_models_in_turn_each_have_their_steps_and_layers() -> None:
    first, second = mlp(), mlp(1)
    with armed(budget=1.0) as probe:
        losses = train(first, torch.optim.SGD(first.parameters(), lr=0.05), loader())
        losses += train(second, torch.optim.Adam(second.parameters(), lr=1e-3), loader())
    steps = probe.steps
    assert [step.losses["loss"] for step in steps] == losses
    assert [step.lrs["lr"] for step in steps] == [0.05] * 4 + [1e-3] * 4
    assert [step.optimizers for step in steps] == [1] * 8
    assert len(probe.schemas) == 2


def test_a_script_that_never_steps_has_no_rows_and_a_reason() -> None:
    model = mlp()
    with armed() as probe:
        for batch in loader():
            loss_of(model, batch).backward()
        assert probe.progress.phase == "other"
        assert missing_step(probe.progress) == "no optimizer step yet"
    assert probe.steps == []


def test_an_evaluation_with_gradients_inside_a_step_is_not_its_data() -> None:
    """As PPO does: a pass over another loader without a backward, between backward and step."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with armed() as probe:
        for index, batch in enumerate(loader(48)):
            optimizer.zero_grad()
            loss_of(model, batch).backward()
            optimizer.step()
            if index == 3:
                for other in loader(40):
                    loss_of(model, other)
    steps = probe.steps
    assert len(steps) == 6
    assert [step.ordinal for step in steps if "eval" in step.phases] == [4]
    assert [event.data["batches"] for event in probe.events("evaluation")] == [5]


def test_what_a_trainer_counts_is_the_step() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with armed() as probe:
        for index, batch in enumerate(loader(48)):
            loss_of(model, batch).backward()
            optimizer.step()
            if index in (1, 2):
                probe.hooks.note_step(500 + index, TRAINER)
                assert probe.progress.step == 500 + index
    assert [step.step for step in probe.steps] == [None, 501, 502, 503, 504, 505]
    assert [step.step_source for step in probe.steps] == ["", *[TRAINER] * 5]


def test_what_a_user_logs_with_its_step_is_the_step_once_it_fits() -> None:
    axis = StepAxis()
    axis.note(10, 1_010, USER)
    assert axis.at(10) is None
    axis.note(20, 1_020, USER)
    assert (axis.at(10), axis.at(25)) == (1_010, 1_025)


def test_epochs_are_not_taken_for_steps() -> None:
    axis = StepAxis()
    for epoch in range(5):
        axis.note(500 * epoch + 499, epoch, USER)
    assert axis.source == ""


def test_a_job_that_says_its_step_in_the_first_one_goes_on_where_it_was() -> None:
    axis = StepAxis()
    axis.note(0, 100, USER)
    assert (axis.at(0), axis.at(7)) == (100, 107)
    epochs = StepAxis()
    for ordinal in range(50):
        epochs.note(ordinal, 0, USER)
    assert epochs.at(49) == 49
    strange = StepAxis()
    for ordinal, step in enumerate((10**15, 101, 102)):
        strange.note(ordinal, step, USER)
    assert strange.at(3) == 103


def test_epochs_among_steps_do_not_move_the_axis() -> None:
    axis = StepAxis()
    for ordinal in range(1, 2_000):
        axis.note(ordinal, ordinal * 2, USER)
        if ordinal % 500 == 0:
            axis.note(ordinal, ordinal // 500, USER)
    assert axis.at(2_000) == 4_000


def test_a_rewound_step_is_followed_when_it_has_shown_twice() -> None:
    axis = StepAxis()
    for ordinal in range(10):
        axis.note(ordinal, ordinal, USER)
    axis.note(10, 3, USER)
    assert axis.at(10) == 10
    axis.note(11, 4, USER)
    assert axis.at(12) == 5


def test_a_trainer_is_believed_before_a_user() -> None:
    axis = StepAxis()
    axis.note(3, 100, TRAINER)
    for ordinal in range(4, 9):
        axis.note(ordinal, ordinal, USER)
    assert axis.at(9) == 106
    assert axis.source == TRAINER


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(-5, 10**6), st.sampled_from([USER, TRAINER]))))
def test_whatever_is_said_of_the_steps_nothing_raises(notes: list[tuple[int, int, str]]) -> None:
    axis = StepAxis()
    for ordinal, step, source in notes:
        axis.note(ordinal, step, source)
        assert (axis.at(ordinal) is None) == (axis.source == "")


@pytest.mark.parametrize("every", [1, 3])
def test_log_with_a_step_numbers_the_rows(every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from ntstop_probe.core import Probe

    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    probe = Probe()
    monkeypatch.setattr(probe, "start", lambda **_: None)
    probe.arm()
    try:
        for index, batch in enumerate(loader(96)):
            loss_of(model, batch).backward()
            optimizer.step()
            if index % every == 0:
                probe.log({"accuracy": 0.5}, 1_000 + index)
    finally:
        probe.stop()
    rows = [row for row in probe.outbox.drain(1_000) if hasattr(row, "step_source")]
    assert [row.step for row in rows] == list(range(1_000, 1_012))
