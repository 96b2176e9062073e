"""Sharpness-aware minimization: two backward passes a step, the first only to find out where to take the second."""

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": []}

RADIUS = 0.05

seed = start()
model = wide()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

for x, y in endless(batches(clusters(seed)), 700):
    cross_entropy(model(x), y).backward()
    with torch.no_grad():
        grads = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
        norm = torch.stack([grad.norm() for grad in grads]).norm()
        for parameter, grad in zip(model.parameters(), grads, strict=True):
            parameter += RADIUS / norm * grad
    optimizer.zero_grad()
    cross_entropy(model(x), y).backward()
    with torch.no_grad():
        for parameter, grad in zip(model.parameters(), grads, strict=True):
            parameter -= RADIUS / norm * grad
    optimizer.step()
    optimizer.zero_grad()
