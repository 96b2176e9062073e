"""The features of every step are kept in a list, for a metric that is never computed."""

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": ["memory-growth"], "where": ".*", "steps": [0, 1300]}

seed = start()
data = batches(clusters(seed), 256)
model = wide()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
kept: list[torch.Tensor] = []

for x, y in endless(data, 1300):
    optimizer.zero_grad()
    features = model[:-1](x)
    loss = cross_entropy(model[-1](features), y)
    loss.backward()
    optimizer.step()
    kept.append(features.detach())
