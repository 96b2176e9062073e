"""Started twice, with everything restored from the checkpoint; the steps have no numbers of the job's own."""

from pathlib import Path

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": [], "starts": 2}

CHECKPOINT = Path("healthy_resumed.pt")

seed = start()
model = wide()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1000)
first = 0
if CHECKPOINT.exists():
    state = torch.load(CHECKPOINT)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    scheduler.load_state_dict(state["scheduler"])
    first = state["step"]
    torch.manual_seed(seed + first)

for step, (x, y) in enumerate(endless(batches(clusters(seed)), 500), first):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    scheduler.step()
    if step % 100 == 99:
        parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
        torch.save({name: part.state_dict() for name, part in parts.items()} | {"step": step + 1}, CHECKPOINT)
