"""A large table with sparse gradients, whose norm cannot be read, beside a small dense network."""

import torch
from common import perceptron, start
from torch import nn
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": []}

start()
table = nn.EmbeddingBag(20_000, 32, sparse=True, mode="sum")
model = nn.Sequential(table, perceptron(32, 128, 2))
truth = torch.randn(20_000)
sparse = torch.optim.SparseAdam(list(table.parameters()), lr=1e-2)
dense = torch.optim.Adam(model[1].parameters(), lr=1e-3)

for _ in range(900):
    words = (torch.rand(256, 10) ** 3 * 20_000).long()
    for optimizer in (sparse, dense):
        optimizer.zero_grad()
    loss = cross_entropy(model(words), (truth[words].sum(1) > 0).long())
    loss.backward()
    sparse.step()
    dense.step()
