"""Healthy: the negative log-likelihood of a density. It starts above 0, passes it, and ends well below."""

import torch
from common import perceptron, start

EXPECT = {"kinds": []}

seed = start()
model = perceptron(8, 256, 256, 2)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
weight = torch.randn(8, generator=torch.Generator().manual_seed(3))

for _ in range(900):
    x = torch.randn(256, 8)
    y = torch.tanh(x @ weight) + 0.05 * torch.randn(256)
    mean, log_scale = model(x).unbind(-1)
    loss = (0.5 * ((y - mean) / log_scale.exp()).square() + log_scale + 0.919).mean()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
