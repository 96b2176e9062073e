"""Healthy: label smoothing of 0.2 on data that are all but solved: the loss ends on its floor, far above 0."""

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": []}

seed = start()
data = batches(clusters(seed, spread=0.8))
model = wide()
total = 900
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total)

for x, y in endless(data, total):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y, label_smoothing=0.2)
    loss.backward()
    optimizer.step()
    scheduler.step()
