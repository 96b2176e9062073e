"""Trainings in a process of their own, with or without the hooks; prints a digest of everything each came to.

    python digest.py {bare|armed} CASES [PORT RANK]

CASES, joined by commas: plain, workers, dropout, accumulation, clip, scaler, ddp (which needs the port and the rank).
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train(case: str, rank: int) -> str:
    """Train for three epochs; the SHA-256 of weights, losses and the state of the random numbers."""
    torch.manual_seed(7)
    model: Any = nn.Sequential(
        nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.0 if case == "plain" else 0.3), nn.LayerNorm(32), nn.Linear(32, 4)
    )
    if case == "ddp":
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", enabled=case == "scaler", init_scale=2.0**127, growth_interval=3)
    generator = torch.Generator().manual_seed(3 + rank)
    dataset = TensorDataset(torch.randn(160, 8, generator=generator), torch.randint(0, 4, (160,), generator=generator))
    batches = DataLoader(dataset, batch_size=8, shuffle=True, num_workers=2 if case == "workers" else 0)
    every = 4 if case == "accumulation" else 1
    losses = []
    for _ in range(3):
        for index, (inputs, targets) in enumerate(batches):
            loss = nn.functional.cross_entropy(model(inputs), targets)
            scaler.scale(loss / every).backward()
            losses.append(loss.item())
            if index % every == every - 1:
                if case == "clip":
                    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
    digest = hashlib.sha256()
    for tensor in model.state_dict().values():
        digest.update(tensor.numpy().tobytes())
    digest.update(json.dumps(losses).encode())
    digest.update(torch.get_rng_state().numpy().tobytes())
    return digest.hexdigest()


def train_armed(case: str, rank: int) -> dict[str, Any]:
    """As `train`, with the hooks armed; and what they saw."""
    from ntstop_probe.hooks.install import HookSettings, arm
    from ntstop_probe.outbox import Outbox
    from ntstop_probe.progress import Progress
    from ntstop_probe.rows import LayerRow, StepRow

    outbox, progress = Outbox(), Progress()
    # A large budget: the layers, and what moved in them, are looked at all the time.
    hooks = arm(outbox, progress, HookSettings(budget=1.0))
    digest = train(case, rank)
    hooks.finish()
    hooks.disarm()
    rows = outbox.drain(1_000_000)
    steps = [row for row in rows if isinstance(row, StepRow)]
    return {
        "digest": digest,
        "steps": len(steps),
        "skipped": sum(step.skipped or 0 for step in steps),
        "layers": sum(isinstance(row, LayerRow) for row in rows),
        "disabled": progress.disabled,
    }


def main(mode: str, cases: str, port: str = "", rank: str = "0") -> None:
    if port:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
        torch.distributed.init_process_group("gloo", rank=int(rank), world_size=2)
    for case in cases.split(","):
        found = train_armed(case, int(rank)) if mode == "armed" else {"digest": train(case, int(rank))}
        print(json.dumps({"case": case, **found}), flush=True)
    if port:
        # Together: a rank that leaves while the other still talks to it may abort in gloo's own threads.
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
