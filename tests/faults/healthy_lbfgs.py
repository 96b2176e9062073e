"""Healthy: LBFGS on a least-squares fit, many backward passes in a step, and soon done."""

import torch
from common import perceptron, start

EXPECT = {"kinds": []}

seed = start()
x = torch.linspace(-3.0, 3.0, 512)[:, None]
y = torch.sin(2.0 * x) + 0.05 * torch.randn_like(x)
model = perceptron(1, 64, 64, 1, activation=torch.nn.Tanh)
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=10, line_search_fn="strong_wolfe")


def closure() -> torch.Tensor:
    """The loss, with its gradients."""
    optimizer.zero_grad()
    loss = (model(x) - y).square().mean()
    loss.backward()
    return loss


for _ in range(120):
    optimizer.step(closure)
