"""In the batch of step 120 every label is `ignore_index`: the mean over no labels is 0/0."""

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": ["nonfinite-loss"], "where": "loss", "steps": [120, 120]}

seed = start()
data = batches(clusters(seed))
model = wide()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for step, (x, y) in enumerate(endless(data, 400)):
    if step == 120:
        y = torch.full_like(y, -100)
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
