"""Labels are shuffled apart from their inputs by a join on the wrong key: there is nothing to learn in them."""

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

EXPECT = {"kinds": ["never-learned"], "where": "loss", "steps": [0, 600]}

seed = start()
x, y = clusters(seed).tensors
data = batches(TensorDataset(x, y[torch.randperm(len(y))]))
model = wide()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)

for x, y in endless(data, 1000):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
