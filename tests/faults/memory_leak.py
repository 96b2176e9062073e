"""The logits of every step are kept in a list for a metric that is never computed."""

import torch
from common import batches, clusters, endless, perceptron, start
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": ["memory-growth"], "where": ".*", "steps": [0, 1500]}

seed = start()
data = batches(clusters(seed))
model = perceptron(64, 384, 384, 320)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
kept: list[torch.Tensor] = []

for x, y in endless(data, 3000):
    optimizer.zero_grad()
    logits = model(x)
    loss = cross_entropy(logits, y)
    loss.backward()
    optimizer.step()
    kept.append(logits.detach())
