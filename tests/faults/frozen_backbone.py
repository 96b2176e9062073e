"""The backbone was frozen for the first 100 steps; it is thawed then, but was never given to the optimizer."""

import torch
from common import CLASSES, batches, clusters, endless, perceptron, start
from torch import nn
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": ["frozen-layers", "params-not-updating"], "where": "backbone", "steps": [0, 300]}


class Network(nn.Module):
    """A backbone and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = perceptron(64, 384, 384)
        self.head = nn.Linear(384, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of the points."""
        return self.head(torch.relu(self.backbone(x)))


seed = start()
data = batches(clusters(seed))
model = Network()
model.backbone.requires_grad_(False)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)

for step, (x, y) in enumerate(endless(data, 900)):
    if step == 100:
        model.backbone.requires_grad_(True)
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
