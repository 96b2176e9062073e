"""A mixture of eight experts whose router never chooses three of them: no gradient ever reaches those."""

import torch
from common import CLASSES, FEATURES, batches, clusters, endless, perceptron, start
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": []}


class Mixture(nn.Module):
    """Each point goes to the one expert that the router likes best."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(FEATURES, 8)
        self.experts = nn.ModuleList(perceptron(FEATURES, 128, FEATURES) for _ in range(8))
        with torch.no_grad():
            self.router.bias[5:] = -20.0

    def forward(self, x: Tensor) -> Tensor:
        weight, chosen = self.router(x).softmax(-1).max(-1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            mine = chosen == number
            if mine.any():
                out[mine] = weight[mine, None] * expert(x[mine])
        return x + out


seed = start()
model = nn.Sequential(Mixture(), nn.Linear(FEATURES, CLASSES))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for x, y in endless(batches(clusters(seed)), 800):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
