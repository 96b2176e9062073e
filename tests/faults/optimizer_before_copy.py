"""The model is deep-copied, as some wrappers do, after the optimizer was built: the copy is never trained."""

import copy

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": ["params-not-updating"], "where": "optimizer|parameters|0|.*", "steps": [0, 60]}

seed = start()
data = batches(clusters(seed))
model = wide()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model = copy.deepcopy(model)

for x, y in endless(data, 900):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
