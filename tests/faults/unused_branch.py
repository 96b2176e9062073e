"""A second branch is built and given to the optimizer, but `forward` never calls it: it never gets a gradient."""

import torch
from common import CLASSES, batches, clusters, endless, perceptron, start
from torch import nn
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": ["frozen-layers", "params-not-updating", "dead-layer"], "where": "branch", "steps": [0, 300]}


class Network(nn.Module):
    """Two branches of which one is used."""

    def __init__(self) -> None:
        super().__init__()
        self.main = perceptron(64, 384, 384)
        self.branch = perceptron(64, 384, 384)
        self.head = nn.Linear(384, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of the points."""
        return self.head(torch.relu(self.main(x)) + 0.5 * torch.relu(self.main(x)))


seed = start()
data = batches(clusters(seed), 64)
model = Network()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for x, y in endless(data, 800):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
