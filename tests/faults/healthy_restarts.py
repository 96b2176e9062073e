"""Healthy: cosine annealing with warm restarts. The loss jumps up whenever the rate does."""

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": []}

seed = start()
data = batches(clusters(seed))
model = wide()
optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 250)

for x, y in endless(data, 1250):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    scheduler.step()
