"""Healthy: a contrastive loss, which starts at the logarithm of the batch size and falls from there."""

import torch
from common import batches, clusters, endless, perceptron, start
from torch.nn.functional import cross_entropy, normalize

EXPECT = {"kinds": []}

seed = start()
data = batches(clusters(seed))
model = perceptron(64, 256, 256, 32)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
same = torch.arange(128)

for x, _ in endless(data, 800):
    one, other = (normalize(model(x + 0.5 * torch.randn_like(x)), dim=-1) for _ in range(2))
    loss = cross_entropy(one @ other.T / 0.2, same)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
