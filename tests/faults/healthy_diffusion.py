"""Healthy: noise prediction at a random time. The loss falls early, then is noise on a level for most of the run."""

import torch
from common import batches, clusters, endless, perceptron, start

EXPECT = {"kinds": []}

seed = start()
data = batches(clusters(seed, spread=0.5))
model = perceptron(65, 384, 384, 64)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
total = 1200
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, total)

for x, _ in endless(data, total):
    time = torch.rand(len(x), 1)
    noise = torch.randn_like(x)
    noisy = (1.0 - time).sqrt() * x + time.sqrt() * noise
    loss = (model(torch.cat([noisy, time], 1)) - noise).square().mean()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
