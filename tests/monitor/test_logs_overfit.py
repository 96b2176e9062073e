"""Overfitting is told of every kind of log: an evaluation is judged beside the training steps before it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from .logs import loaded

EPOCHS = 60
BEST = 15


def train(epoch: float) -> float:
    return 0.05 + 2.0 * math.exp(-epoch / 10) + 0.01 * math.sin(37 * epoch)


def val(epoch: int) -> float:
    return 0.6 + 1.5 * math.exp(-epoch / 6) + 0.02 * max(0, epoch - BEST) + 0.01 * math.sin(53 * epoch)


def keras() -> str:
    rows = (f"{epoch},{train(epoch):.5f},{val(epoch):.5f}\n" for epoch in range(EPOCHS))
    return "epoch,loss,val_loss\n" + "".join(rows)


def yolo() -> str:
    rows = (f"{epoch:>23},{train(epoch):>17.5f},{val(epoch):>15.5f}\n" for epoch in range(EPOCHS))
    return f"{'epoch':>23},{'train/box_loss':>17},{'val/box_loss':>15}\n" + "".join(rows)


def lightning() -> str:
    lines = ["epoch,step,train_loss,val_loss\n"]
    for epoch in range(EPOCHS):
        lines += [f"{epoch},{20 * epoch + n},{train(epoch + n / 20):.5f},\n" for n in range(20)]
        lines.append(f"{epoch},{20 * epoch + 19},,{val(epoch):.5f}\n")
    return "".join(lines)


def transformers() -> str:
    history: list[dict[str, float]] = []
    for epoch in range(EPOCHS):
        history += [{"step": 100 * epoch + 10 * n, "loss": train(epoch + n / 10)} for n in range(10)]
        history.append({"step": 100 * epoch + 99, "eval_loss": val(epoch)})
    return json.dumps({"global_step": 100 * EPOCHS, "max_steps": 100 * EPOCHS, "log_history": history})


def nanogpt() -> str:
    lines: list[str] = []
    for epoch in range(EPOCHS):
        lines.append(f"step {100 * epoch}: train loss {train(epoch):.4f}, val loss {val(epoch):.4f}\n")
        lines += [f"iter {100 * epoch + 10 * n}: loss {train(epoch + n / 10):.4f}, time 25ms\n" for n in range(10)]
    return "".join(lines)


def json_lines() -> str:
    rows = ({"step": epoch, "train": {"loss": train(epoch)}, "val": {"loss": val(epoch)}} for epoch in range(EPOCHS))
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize("write", [keras, yolo, lightning, transformers, nanogpt, json_lines])
def test_a_validation_loss_that_rises_while_the_training_falls_is_overfit(
    tmp_path: Path, write: Callable[[], str]
) -> None:
    log = tmp_path / "log"
    log.write_text(write())
    session = loaded(log)
    found = [finding for finding in session.findings if finding.severity != "info"]
    assert [finding.kind for finding in found] == ["overfit"]
    process = session.state.primary
    assert process is not None
    assert found[0].first_step / process.x == pytest.approx(BEST / EPOCHS, abs=0.05)
