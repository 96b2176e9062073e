"""All but the norm layers is frozen, as if the backbone were pretrained, and it is not: the loss stays at ln K."""

import torch
from common import batches, clusters, endless, start
from torch import nn
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": ["frozen-layers", "never-learned"], "where": ".*", "steps": [0, 600]}

seed = start()
data = batches(clusters(seed, classes=100))
blocks = [nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64)) for _ in range(6)]
model = nn.Sequential(*blocks, nn.Linear(64, 100))
with torch.no_grad():
    model[-1].weight.mul_(0.02)
model.requires_grad_(False)
for module in model.modules():
    if isinstance(module, nn.LayerNorm):
        module.requires_grad_(True)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)

for x, y in endless(data, 1200):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
