"""Hugging Face Trainer, Lightning and Accelerate under `ntstop run`, unchanged: the same result, and all of it seen."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from .followed import followed, said, start

pytestmark = pytest.mark.slow


def means_of_two(losses: list[float]) -> list[float]:
    """Of the two micro-batches of each step, whose losses the framework divides before it adds up the gradients."""
    return [(first + second) / 2 for first, second in zip(losses[::2], losses[1::2], strict=True)]


def test_a_hugging_face_trainer_gives_the_same_result_and_is_followed(home: Path, tmp_path: Path) -> None:
    bare, armed = (start("job_hf.py", str(tmp_path / str(run)), "plain", run=run) for run in (None, "hf"))
    told = said(armed)
    assert told == said(bare)
    seen = followed(home, "hf")
    # As the Trainer logs it, which adds up what it has divided; rounded, as it does, to four places.
    losses = seen.column("losses/loss")
    assert [sum(losses[at : at + 2]) / 2 for at in (0, 2, 4)] == pytest.approx(told["logged"], abs=1e-4)
    assert seen.disabled == []
    assert seen.hello.total_steps == 6
    # Two micro-batches each, fetched ahead by Accelerate; the Trainer's own count.
    assert seen.column("step") == [1, 2, 3, 4, 5, 6]
    assert {block.step_source for block in seen.blocks} == {"trainer"}
    assert seen.column("micro") == [2] * 6
    assert seen.column("optimizers") == [1] * 6
    assert seen.column("epoch") == [0] * 6
    assert all(norm > 0 for norm in seen.column("grad_norm"))
    # The Trainer's own names, once, although it hands them on to TensorBoard.
    assert [step for step, _ in seen.curve("train/loss")] == [2, 4, 6]
    assert [step for step, _ in seen.curve("eval/loss")] == [3, 6]
    assert all(abs(value - math.log(32)) < 0.5 for _, value in seen.curve("eval/loss"))
    # What follows the last step of all belongs to no step.
    assert [phase is not None for phase in seen.column("phases/eval")] == [False, False, True, False, False, False]
    assert [(event.ordinal, event.step) for event in seen.events("evaluation")] == [(2, 3), (5, 6)]
    assert [(event.ordinal, event.data) for event in seen.events("epoch")] == [(6, {"epoch": 0})]
    # Model, optimizer, schedule, random numbers and arguments are files of one checkpoint.
    assert [(event.text, event.step) for event in seen.events("checkpoint")] == [
        (str(tmp_path / "hf" / f"checkpoint-{step}"), step) for step in (3, 6)
    ]
    assert all(event.duration > 0 for event in seen.events("checkpoint"))
    assert [phase is not None for phase in seen.column("phases/checkpoint")][:3] == [False, False, True]


def test_lightning_gives_the_same_result_and_is_followed(home: Path, tmp_path: Path) -> None:
    bare, armed = (start("job_lightning.py", str(tmp_path / str(run)), "tensorboard", run=run) for run in (None, "pl"))
    told = said(armed)
    assert told == said(bare)
    seen = followed(home, "pl")
    assert seen.column("losses/loss") == pytest.approx(means_of_two(told["losses"]))
    assert seen.disabled == []
    assert seen.hello.total_steps == 6
    assert seen.column("step") == [1, 2, 3, 4, 5, 6]
    assert {block.step_source for block in seen.blocks} == {"trainer"}
    assert seen.column("micro") == [2] * 6
    assert seen.column("epoch") == [0, 0, 0, 1, 1, 1]
    # Lightning's loggers count from 0, and each metric is one curve whatever it is handed on to.
    assert [step for step, _ in seen.curve("train_loss")] == [1, 3, 5]
    assert [step for step, _ in seen.curve("val_loss")] == [2, 5]
    assert not seen.curve("epoch")
    # The sanity check, and one validation an epoch.
    assert [event.ordinal for event in seen.events("evaluation")] == [0, 2, 5]
    saved = seen.events("checkpoint")
    assert [event.step for event in saved] == [3, 6]
    assert [Path(event.text).name for event in saved] == ["epoch=0-step=3.ckpt", "epoch=1-step=6.ckpt"]
    assert all(event.data == {"by": "lightning.pytorch"} for event in saved)


def test_lightning_without_a_logger_has_curves_and_says_from_where_it_was_resumed(home: Path, tmp_path: Path) -> None:
    said(start("job_lightning.py", str(tmp_path), "none", run="pl"))
    seen = followed(home, "pl")
    assert [step for step, _ in seen.curve("train_loss")] == [1, 3, 5, 7]
    assert seen.column("step") == list(range(1, 10))
    (resumed,) = seen.events("resume")
    assert (Path(resumed.text).name, resumed.step) == ("epoch=1-step=6.ckpt", 6)
    assert [Path(event.text).name for event in seen.events("load")] == ["epoch=1-step=6.ckpt"]
    assert seen.hello.total_steps == 9


def test_a_job_with_accelerate_makes_one_step_of_its_micro_batches(home: Path, tmp_path: Path) -> None:
    job = said(start("job_accelerate.py", str(tmp_path / "state"), run="ac"))
    seen = followed(home, "ac")
    assert seen.disabled == []
    assert seen.column("micro") == [2] * 6
    assert seen.column("optimizers") == [1] * 6
    assert seen.column("grad_norm") == pytest.approx(job["norms"])
    assert seen.column("losses/loss") == pytest.approx(means_of_two(job["losses"]))
    assert all(clip < 1 for clip in seen.column("clip"))
    # Its loader fetches a batch ahead, and finds the end before the last batch has been trained on.
    assert seen.column("epoch") == [0, 0, 0, 1, 1, 1]
    assert [event.ordinal for event in seen.events("epoch")] == [3, 6]
    assert not seen.events("evaluation")
    assert [event.text for event in seen.events("checkpoint")] == [str(tmp_path / "state")]
    assert [event.text for event in seen.events("load")] == [str(tmp_path / "state")]


@pytest.mark.parametrize("job", ["job_hf.py", "job_lightning.py"])
def test_a_callback_brings_the_same_and_nothing_twice(home: Path, tmp_path: Path, job: str) -> None:
    said(start(job, str(tmp_path), "callback", environment={"NTSTOP_RUN_ID": "callback"}))
    seen = followed(home, "callback")
    assert seen.hello.title == "by callback"
    assert seen.hello.total_steps == 6
    assert seen.column("step") == [1, 2, 3, 4, 5, 6]
    name, steps = ("train/loss", [2, 4, 6]) if job == "job_hf.py" else ("train_loss", [1, 3, 5])
    assert [step for step, _ in seen.curve(name)] == steps
    assert [event.step for event in seen.events("checkpoint")] == [3, 6]
