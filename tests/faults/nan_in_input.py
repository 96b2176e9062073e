"""One value of the batch of step 90 is NaN, as a division by an empty column leaves it."""

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": ["nonfinite-loss"], "where": "loss", "steps": [90, 90]}

seed = start()
data = batches(clusters(seed))
model = wide()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for step, (x, y) in enumerate(endless(data, 400)):
    if step == 90:
        x[3, 7] = float("nan")
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
