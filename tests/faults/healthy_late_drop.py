"""Healthy: a parity of three features. The loss stays at ln 2 for a while, then falls all at once."""

import torch
from common import perceptron, start
from torch.nn.functional import binary_cross_entropy_with_logits

EXPECT = {"kinds": []}

seed = start()
model = perceptron(16, 512, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

for _ in range(1200):
    x = torch.randint(0, 2, (256, 16)) * 2.0 - 1.0
    y = (x[:, :3].prod(1) > 0).float()
    loss = binary_cross_entropy_with_logits(model(x).squeeze(-1), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
