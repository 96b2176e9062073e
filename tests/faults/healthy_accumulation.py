"""Healthy: gradients of four micro-batches are added up, with `zero_grad` once a window."""

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": []}

seed = start()
data = batches(clusters(seed), 32)
model = wide()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for number, (x, y) in enumerate(endless(data, 2000)):
    loss = cross_entropy(model(x), y) / 4
    loss.backward()
    if number % 4 == 3:
        optimizer.step()
        optimizer.zero_grad()
