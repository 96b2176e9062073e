"""Validation data are not normalized as training data are: its loss rises from the first evaluation on."""

import tempfile

import torch
from common import batches, clusters, endless, evaluate, start, wide
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset
from torch.utils.tensorboard import SummaryWriter

EXPECT = {"kinds": ["leakage-suspect", "overfit"], "where": "val.*", "steps": [0, 300]}

seed = start()
data = batches(clusters(seed))
x, y = clusters(seed + 1000, 1024).tensors
held_out = TensorDataset(5.0 * x.flip(1) + 3.0, y)
model = wide()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
writer = SummaryWriter(tempfile.mkdtemp())

for step, (x, y) in enumerate(endless(data, 900)):
    if step % 20 == 0:
        writer.add_scalar("val/loss", evaluate(model, held_out), step)
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        writer.add_scalar("train/loss", float(loss), step)
