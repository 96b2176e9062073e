"""Healthy: loss scaling starts far too high, skips steps until it has found its level, and one now and then later."""

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": []}

seed = start()
data = batches(clusters(seed))
model = wide()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**30, growth_interval=150)

for x, y in endless(data, 600):
    optimizer.zero_grad()
    # In half precision a gradient of the logits ends at 65,504, as on a GPU.
    loss = cross_entropy(model(x).half().float(), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
