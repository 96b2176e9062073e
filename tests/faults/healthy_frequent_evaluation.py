"""Healthy: an evaluation every ten steps, on little data, whose curve is noisy and still falls."""

import tempfile

import torch
from common import batches, clusters, endless, evaluate, start, wide
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset
from torch.utils.tensorboard import SummaryWriter

EXPECT = {"kinds": []}

seed = start()
data, held_out = batches(clusters(seed)), clusters(seed + 1000, 4096)
model = wide()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
writer = SummaryWriter(tempfile.mkdtemp())

for step, (x, y) in enumerate(endless(data, 900)):
    model.train()
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        some = torch.randint(0, 4096, (256,))
        part = TensorDataset(held_out.tensors[0][some], held_out.tensors[1][some])
        writer.add_scalar("val/loss", evaluate(model, part), step)
