"""Every weight starts at zero: all units of a layer are the same, and no gradient gets past the last bias."""

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy

EXPECT = {
    "kinds": ["dead-layer", "frozen-layers", "never-learned", "vanishing-gradients"],
    "where": ".*",
    "steps": [0, 600],
}

seed = start()
data = batches(clusters(seed))
model = wide()
with torch.no_grad():
    for parameter in model.parameters():
        parameter.zero_()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

for x, y in endless(data, 900):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
