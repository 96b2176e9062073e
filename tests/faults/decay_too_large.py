"""Weight decay of 1 with plain SGD: it takes away more than the gradient gives, and the network shrinks to nothing."""

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy

EXPECT = {
    "kinds": ["never-learned", "update-ratio-high", "vanishing-gradients", "plateau", "dead-layer"],
    "where": ".*",
    "steps": [0, 600],
}

seed = start()
data = batches(clusters(seed))
model = wide()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9, weight_decay=1.0)

for x, y in endless(data, 900):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
