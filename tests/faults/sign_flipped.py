"""The optimizer maximizes: `maximize=True` was left in from a reward, so the loss rises from the first step."""

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": ["divergence"], "where": "loss", "steps": [0, 60]}

seed = start()
data = batches(clusters(seed))
model = wide()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, maximize=True)

for x, y in endless(data, 500):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
