"""An epoch has 22 batches and a window 4: the last two gradients of an epoch are not used, and spill into the next."""

import torch
from common import batches, clusters, start, wide
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": ["gradient-accumulating"], "where": ".*", "steps": [0, 120]}

seed = start()
data = batches(clusters(seed, 22 * 64), 64)
model = wide()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)

for _epoch in range(60):
    for number, (x, y) in enumerate(data):
        loss = cross_entropy(model(x), y) / 4
        loss.backward()
        if number % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
