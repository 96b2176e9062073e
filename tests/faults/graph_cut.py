"""The features are detached before the head, a line left over from an experiment: the encoder never learns."""

import torch
from common import CLASSES, batches, clusters, endless, perceptron, start
from torch import nn
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": ["frozen-layers", "params-not-updating"], "where": "encoder", "steps": [0, 200]}


class Network(nn.Module):
    """An encoder and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = perceptron(64, 384, 384)
        self.head = nn.Linear(384, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of the points."""
        return self.head(self.encoder(x).detach())


seed = start()
data = batches(clusters(seed))
model = Network()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for x, y in endless(data, 600):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
