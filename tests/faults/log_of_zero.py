"""The loss is -log(p) in plain float: at step 200 a sure and wrong answer makes p exactly 0, and the loss Inf."""

import torch
from common import batches, clusters, endless, perceptron, start

EXPECT = {"kinds": ["nonfinite-loss"], "where": "loss", "steps": [200, 200]}

seed = start()
data = batches(clusters(seed))
model = perceptron(64, 384, 384, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for step, (x, y) in enumerate(endless(data, 500)):
    if step == 200:
        x = x * 3000.0
    optimizer.zero_grad()
    p = torch.sigmoid(model(x)).squeeze(-1)
    target = (y < 5).float()
    loss = -(target * torch.log(p) + (1 - target) * torch.log(1 - p)).mean()
    loss.backward()
    optimizer.step()
