"""The softmax runs over the batch instead of the classes (`dim=0`): the loss ends where the labels' counts put it."""

import torch
from common import batches, clusters, endless, start, wide

EXPECT = {"kinds": ["plateau", "never-learned"], "where": "loss", "steps": [0, 1500]}

seed = start()
data = batches(clusters(seed, spread=0.4))
model = wide()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for x, y in endless(data, 1600):
    optimizer.zero_grad()
    log_p = torch.log_softmax(model(x), dim=0)
    loss = -log_p.gather(1, y[:, None]).mean()
    loss.backward()
    optimizer.step()
