"""At step 150 a padded sample is a zero vector: the gradient of its norm is 0/0, while the loss stays finite."""

import torch
from common import CLASSES, batches, clusters, endless, perceptron, start
from torch import nn
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": ["nonfinite-grad"], "where": ".*", "steps": [150, 150]}


class Normalized(nn.Module):
    """An encoder without biases whose output is divided by its length."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 384, bias=False), nn.ReLU(), nn.Linear(384, 128, bias=False))
        self.head = perceptron(128, 384, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of the points."""
        z = self.encoder(x)
        return self.head(z / (z.square().sum(-1, keepdim=True).sqrt() + 1e-6) * 10.0)


seed = start()
data = batches(clusters(seed))
model = Normalized()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for step, (x, y) in enumerate(endless(data, 400)):
    if step == 150:
        x[5] = 0.0
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
