"""`total += loss`, for the mean loss of an epoch, keeps the graph of every step alive, and with it the activations."""

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": ["memory-growth"], "where": ".*", "steps": [0, 900]}

seed = start()
data = batches(clusters(seed), 96)
model = wide()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False)
total = torch.zeros(())

for x, y in endless(data, 3500):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    total = total + cross_entropy(model(x), y)
