"""`zero_grad` is never called: every step adds the gradients of all steps before it."""

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": ["gradient-accumulating"], "where": ".*", "steps": [0, 100]}

seed = start()
data = batches(clusters(seed))
model = wide()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

for x, y in endless(data, 900):
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
