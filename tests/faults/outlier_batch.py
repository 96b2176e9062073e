"""The batch of step 400 comes in other units: it throws the weights off, and they take a while to recover."""

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": ["loss-spike"], "where": "loss", "steps": [398, 402]}

seed = start()
data = batches(clusters(seed))
model = wide()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)

for step, (x, y) in enumerate(endless(data, 800)):
    if step == 400:
        x, y = x * 20.0, y.roll(1)
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
