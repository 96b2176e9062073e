"""Healthy: four batches in the whole data set, so that every fourth step sees the same, and the loss goes to 0."""

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": []}

seed = start()
data = batches(clusters(seed, 256), 64)
model = wide()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

for x, y in endless(data, 800):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
