"""The head is replaced for a new number of classes after the optimizer was built: the new head never moves."""

import torch
from common import CLASSES, batches, clusters, endless, perceptron, start
from torch import nn
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": ["frozen-layers", "params-not-updating"], "where": r"head", "steps": [0, 200]}

seed = start()
data = batches(clusters(seed))
model = nn.Sequential()
model.add_module("body", perceptron(64, 384, 384, 128))
model.add_module("head", nn.Linear(128, 1000))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model.head = nn.Linear(128, CLASSES)

for x, y in endless(data, 900):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
