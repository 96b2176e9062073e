"""An attention-like score goes through exp() in half precision; at step 250 one score passes ln(65,504) = 11.1."""

import torch
from common import CLASSES, batches, clusters, endless, perceptron, start
from torch import nn

EXPECT = {"kinds": ["nonfinite-loss"], "where": "loss", "steps": [250, 250]}

seed = start()
data = batches(clusters(seed))
model = nn.Sequential(perceptron(64, 384, 384, 64), nn.LayerNorm(64), nn.Linear(64, CLASSES))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

for step, (x, y) in enumerate(endless(data, 500)):
    temperature = 1.0 if step < 250 else 0.05  # an annealing schedule with a slip in it
    optimizer.zero_grad()
    scores = (model(x).clamp(-9.0, 9.0) / temperature).half()
    weights = scores.exp()
    probabilities = weights.float() / weights.float().sum(-1, keepdim=True)
    loss = -probabilities.gather(1, y[:, None]).clamp(min=1e-6).log().mean()
    loss.backward()
    optimizer.step()
