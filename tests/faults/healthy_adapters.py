"""Healthy: low-rank adapters are trained, the model under them is frozen on purpose: 95 % of all weights never move."""

import torch
from common import batches, clusters, endless, pretrained, start
from torch import nn
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": []}


class Adapted(nn.Module):
    """A frozen linear layer with a low-rank correction that starts at zero."""

    def __init__(self, base: nn.Linear, rank: int = 8) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_a = nn.Parameter(torch.randn(rank, base.in_features) / base.in_features**0.5)
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """As the layer, corrected."""
        return self.base(x) + x @ self.lora_a.T @ self.lora_b.T


seed = start()
data = batches(clusters(seed))
model = nn.Sequential(*(Adapted(layer) if isinstance(layer, nn.Linear) else layer for layer in pretrained(seed)))
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)

for x, y in endless(data, 800):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
