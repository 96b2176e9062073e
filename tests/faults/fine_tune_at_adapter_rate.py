"""A whole pretrained model is fine-tuned at a rate for adapters, and forgets in a few steps what it knew."""

import torch
from common import batches, clusters, endless, pretrained, start
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": ["update-ratio-high", "divergence"], "where": ".*", "steps": [0, 120]}

seed = start()
data = batches(clusters(seed))
model = pretrained(seed)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-2)

for x, y in endless(data, 700):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
