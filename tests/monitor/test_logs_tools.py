"""Logs written here and now by the tools themselves, where they are installed."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .logs import curve, loaded

WRITERS = {
    "tensorboard": """
from torch.utils.tensorboard import SummaryWriter
writer = SummaryWriter(folder)
for step in range(20):
    writer.add_scalar("train/loss", loss(step), step, new_style=bool(step % 2))
    writer.add_scalar("train/lr", 1e-3, step)
writer.close()
""",
    "wandb": """
import wandb
settings = wandb.Settings(x_disable_stats=True, x_disable_meta=True, disable_git=True, disable_code=True, console="off")
run = wandb.init(project="p", dir=folder, mode="offline", settings=settings)
for step in range(20):
    run.log({"train": {"loss": loss(step)}, "lr": 1e-3})
run.finish()
""",
    "lightning": """
from lightning.pytorch.loggers import CSVLogger
logger = CSVLogger(folder, "logs", flush_logs_every_n_steps=1)
for step in range(20):
    logger.log_metrics({"train_loss": loss(step), "lr-Adam": 1e-3}, step)
    if step == 10:
        logger.log_metrics({"val_loss": 1.0}, step)
logger.save()
""",
    "transformers": """
from transformers.trainer_callback import TrainerState
state = TrainerState(max_steps=40, global_step=20)
state.log_history = [{"loss": loss(n), "learning_rate": 1e-3, "epoch": 0.1, "step": n} for n in range(20)]
state.save_to_json(folder + "/trainer_state.json")
""",
}
LOSS = "import math, sys\nfolder = sys.argv[1]\ndef loss(n): return math.nan if n == 15 else 3.0 - n / 10\n"


@pytest.mark.slow
@pytest.mark.parametrize("tool", WRITERS)
def test_what_a_tool_writes_is_read(tool: str, tmp_path: Path) -> None:
    pytest.importorskip(tool)
    if tool == "tensorboard":
        pytest.importorskip("torch")
    environment = {**os.environ, "WANDB_SILENT": "true", "CUDA_VISIBLE_DEVICES": ""}
    written = subprocess.run(
        [sys.executable, "-c", LOSS + WRITERS[tool], str(tmp_path)],
        capture_output=True, text=True, timeout=100, env=environment,
    )  # fmt: skip
    if written.returncode:
        pytest.skip(f"{tool} does not work here: {written.stderr[-200:]}")
    session = loaded(tmp_path)
    losses = dict(curve(session, "loss"))
    assert list(losses) == list(range(20)) and math.isnan(losses[15])
    assert losses[10] == pytest.approx(2.0)
    assert dict(curve(session, "lr"))[3] == pytest.approx(1e-3)
