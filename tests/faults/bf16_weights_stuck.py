"""Weights are kept in bfloat16, with 8 bits of mantissa, at a rate whose updates are lost in the rounding."""

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": ["update-underflow"], "where": ".*", "steps": [0, 600]}

seed = start()
data = batches(clusters(seed))
model = wide()
with torch.no_grad():
    for parameter in model.parameters():
        parameter.mul_(3.0)
model.bfloat16()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

for x, y in endless(data, 500):
    optimizer.zero_grad()
    loss = cross_entropy(model(x.bfloat16()).float(), y)
    loss.backward()
    optimizer.step()
