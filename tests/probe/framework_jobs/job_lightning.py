"""Lightning: python job_lightning.py OUT {tensorboard|none|callback}. Prints a digest as JSON."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import lightning
import torch
from digest_of import digest_of
from lightning.pytorch.loggers import TensorBoardLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Model(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 1))
        self.seen: list[float] = []

    def training_step(self, batch, index):
        loss = self.net(batch[0]).square().mean()
        self.seen.append(loss.item())
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, index):
        self.log("val_loss", self.net(batch[0]).square().mean())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)


def trainer(out: str, logger, epochs: int, **more) -> lightning.Trainer:
    return lightning.Trainer(
        max_epochs=epochs,
        log_every_n_steps=2,
        default_root_dir=out,
        accelerator="cpu",
        enable_progress_bar=False,
        enable_model_summary=False,
        logger=logger,
        **more,
    )


def main(out: str, how: str) -> None:
    torch.set_num_threads(1)
    random.seed(0)
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(24, 4))
    logger = TensorBoardLogger(out) if how == "tensorboard" else False
    callbacks = []
    if how == "callback":
        from ntstop_probe.integrations import NtstopLightningCallback

        callbacks.append(NtstopLightningCallback(title="by callback"))
    model = Model()
    options = {"accumulate_grad_batches": 2, "gradient_clip_val": 0.5, "callbacks": callbacks}
    first = trainer(out, logger, 2, **options)
    first.fit(model, DataLoader(data, batch_size=4, shuffle=True), DataLoader(data, batch_size=8))
    if how == "none":
        (saved,) = Path(out).rglob("*.ckpt")
        again = trainer(out, False, 3, **options)
        again.fit(model, DataLoader(data, batch_size=4, shuffle=True), ckpt_path=str(saved), weights_only=False)
    print(json.dumps({"digest": digest_of(model, model.seen), "losses": model.seen}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
