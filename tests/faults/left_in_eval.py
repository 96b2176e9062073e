"""After the first evaluation, at step 200, nobody calls `train()`: dropout and batch norm stay in evaluation mode."""

import torch
from common import CLASSES, batches, clusters, endless, evaluate, start
from torch import nn
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": ["eval-mode-training"], "where": ".*", "steps": [195, 330]}

seed = start()
data, held_out = batches(clusters(seed)), clusters(seed + 1000, 1024)
model = nn.Sequential(
    *(nn.Linear(64, 384), nn.BatchNorm1d(384), nn.ReLU(), nn.Dropout(0.3)),
    *(nn.Linear(384, 384), nn.ReLU(), nn.Dropout(0.3), nn.Linear(384, CLASSES)),
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for step, (x, y) in enumerate(endless(data, 900)):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 200 == 199:
        model.eval()
        evaluate(model, held_out)
