"""A hand-written schedule multiplies the rate by 30 at step 500: a run that was learning falls apart."""

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": ["lr-jump", "divergence"], "where": ".*", "steps": [490, 560]}

seed = start()
data = batches(clusters(seed))
model = wide()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

for step, (x, y) in enumerate(endless(data, 900)):
    if step == 500:
        optimizer.param_groups[0]["lr"] *= 30.0
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
