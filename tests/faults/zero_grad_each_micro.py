"""`zero_grad` is called in each of four micro-batches: only the last one counts, at a quarter of its weight."""

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": ["gradient-accumulating"], "where": ".*", "steps": [0, 100]}

seed = start()
data = batches(clusters(seed), 64)
model = wide()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

for number, (x, y) in enumerate(endless(data, 1600)):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y) / 4
    loss.backward()
    if number % 4 == 3:
        optimizer.step()
