"""From step 300 on the metrics go to a file on a network disk that is full: each write is tried again for 30 ms."""

import time

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": ["step-time-regression"], "where": ".*", "steps": [270, 380]}


def write(step: int) -> None:
    """Stands for the write."""
    if step >= 300:
        time.sleep(0.03)


seed = start()
data = batches(clusters(seed))
model = wide()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for step, (x, y) in enumerate(endless(data, 600)):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    write(step)
