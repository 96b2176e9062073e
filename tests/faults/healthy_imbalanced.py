"""Healthy: 97 % of all labels are of one class, so that the loss starts low and most batches teach little."""

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

EXPECT = {"kinds": []}

seed = start()
x, y = clusters(seed).tensors
keep = (y == 0) | (torch.rand(len(y)) < 0.0035)
x, y = x[keep].repeat(4, 1), y[keep].repeat(4)
data = batches(TensorDataset(x + 0.3 * torch.randn_like(x), y))
model = wide()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

for x, y in endless(data, 900):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
