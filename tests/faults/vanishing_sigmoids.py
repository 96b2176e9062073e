"""Ten sigmoid layers in a row with the usual initialization: the gradient of the first is a millionth of the last's."""

import torch
from common import CLASSES, batches, clusters, endless, perceptron, start
from torch import nn
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": ["vanishing-gradients", "never-learned"], "where": ".*", "steps": [0, 600]}

seed = start()
data = batches(clusters(seed))
model = perceptron(64, *[96] * 10, CLASSES, activation=nn.Sigmoid)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

for x, y in endless(data, 900):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
