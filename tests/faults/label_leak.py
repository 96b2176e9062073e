"""A column of the training data holds the label, and that of validation data does not: its loss rises at once."""

import tempfile

import torch
from common import CLASSES, batches, clusters, endless, evaluate, start, wide
from torch.nn.functional import cross_entropy, one_hot
from torch.utils.data import TensorDataset
from torch.utils.tensorboard import SummaryWriter

EXPECT = {"kinds": ["leakage-suspect", "overfit"], "where": "val.*", "steps": [0, 300]}

seed = start()
x, y = clusters(seed, spread=6.0).tensors
x[:, :CLASSES] = 3.0 * one_hot(y, CLASSES)
data = batches(TensorDataset(x, y))
x, y = clusters(seed + 1000, 1024, spread=6.0).tensors
x[:, :CLASSES] = 3.0 * one_hot(torch.randint(0, CLASSES, y.shape), CLASSES)
held_out = TensorDataset(x, y)
model = wide()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
writer = SummaryWriter(tempfile.mkdtemp())

for step, (x, y) in enumerate(endless(data, 800)):
    if step % 20 == 0:
        writer.add_scalar("val/loss", evaluate(model, held_out), step)
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        writer.add_scalar("train/loss", float(loss), step)
