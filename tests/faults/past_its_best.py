"""A memorizer on noisy labels: validation is at its best early, and the run goes on for thirty evaluations more."""

import tempfile

import torch
from common import CLASSES, batches, clusters, endless, evaluate, start, wide
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset
from torch.utils.tensorboard import SummaryWriter

EXPECT = {"kinds": ["early-stop", "overfit"], "where": "val.*", "steps": [40, 600]}

seed = start()
x, y = clusters(seed, 2048).tensors
y = torch.where(torch.rand(len(y)) < 0.3, torch.randint(0, CLASSES, y.shape), y)
data, held_out = batches(TensorDataset(x, y)), clusters(seed + 1000, 1024)
model = wide()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
writer = SummaryWriter(tempfile.mkdtemp())

for step, (x, y) in enumerate(endless(data, 1000)):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 25 == 24:
        writer.add_scalar("val/loss", evaluate(model, held_out), step)
