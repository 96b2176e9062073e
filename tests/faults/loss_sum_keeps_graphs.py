"""`total += loss`, for the mean loss of an epoch, keeps the graph of every step alive, and with it the activations."""

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": ["memory-growth"], "where": ".*", "steps": [0, 900]}

seed = start()
data = batches(clusters(seed), 256)
model = wide()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
scale = torch.ones((), requires_grad=True)  # a learned temperature, in no optimizer: it is in every graph
total = torch.zeros(())

for x, y in endless(data, 1300):
    optimizer.zero_grad()
    loss = cross_entropy(model(x * scale), y)
    loss.backward(retain_graph=True)
    total = total + loss
    optimizer.step()
