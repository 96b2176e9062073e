"""Stopped at step 400 and resumed from a checkpoint that lacks the scheduler: the rate starts anew, at its highest."""

from pathlib import Path

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy

EXPECT = {
    "kinds": ["resume-discontinuity", "lr-jump", "divergence"],
    "where": ".*",
    "steps": [0, 460],
    "starts": 2,
}

seed = start()
data = batches(clusters(seed))
model = wide()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(1e-2, 0.99**step))
checkpoint, first = Path("checkpoint.pt"), 0
if checkpoint.exists():
    saved = torch.load(checkpoint)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    first = saved["step"]
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(1e-2, 0.99**step))

for x, y in endless(data, 400):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    scheduler.step()
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": first + 400}, checkpoint)
