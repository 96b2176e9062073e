"""The model ends in a softmax and the loss takes another one: with K classes it cannot fall below ln(e + K - 1) - 1."""

import torch
from common import CLASSES, batches, clusters, endless, start, wide
from torch import nn
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": ["plateau", "never-learned"], "where": "loss", "steps": [0, 1500]}

seed = start()
data = batches(clusters(seed, spread=0.4))
model = nn.Sequential(wide(), nn.Softmax(dim=-1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for x, y in endless(data, 2000):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
assert CLASSES == 10  # the floor is ln(e + 9) - 1 = 1.461
