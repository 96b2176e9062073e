"""Accelerate: python job_accelerate.py OUT. Prints how many steps the job has made, as JSON."""

from __future__ import annotations

import json
import sys

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main(out: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    accelerator = Accelerator(gradient_accumulation_steps=2, cpu=True, mixed_precision="bf16")
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    loader = DataLoader(TensorDataset(torch.randn(24, 4)), batch_size=4)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    norms, losses = [], []
    for _ in range(2):
        for (inputs,) in loader:
            with accelerator.accumulate(model):
                loss = model(inputs).square().mean()
                losses.append(loss.item())
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    norms.append(float(accelerator.clip_grad_norm_(model.parameters(), 1e-3)))
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
    accelerator.save_state(out)
    accelerator.load_state(out)
    print(json.dumps({"norms": norms, "losses": losses}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
