"""`scheduler.step()` stands where `optimizer.step()` should: no step is ever taken."""

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": ["params-not-updating"], "where": ".*", "steps": [0, 100]}

seed = start()
data = batches(clusters(seed))
model = wide()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 900)

for x, y in endless(data, 900):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    scheduler.step()
