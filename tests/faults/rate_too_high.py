"""The learning rate is a hundred times too high from the first step on."""

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": ["update-ratio-high", "divergence", "never-learned"], "where": ".*", "steps": [0, 150]}

seed = start()
data = batches(clusters(seed))
model = wide()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.3)

for x, y in endless(data, 700):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
