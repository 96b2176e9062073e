"""512 samples for 190,000 weights: the training loss goes to 0 while the validation loss, having fallen, rises."""

import tempfile

import torch
from common import batches, clusters, endless, evaluate, start, wide
from torch.nn.functional import cross_entropy
from torch.utils.tensorboard import SummaryWriter

EXPECT = {"kinds": ["overfit", "early-stop"], "where": "val.*", "steps": [20, 400]}

seed = start()
data, held_out = batches(clusters(seed, 512), 64), clusters(seed + 1000, 1024)
model = wide()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
writer = SummaryWriter(tempfile.mkdtemp())

for step, (x, y) in enumerate(endless(data, 1000)):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 20 == 19:
        writer.add_scalar("train/loss", float(loss), step)
        writer.add_scalar("val/loss", evaluate(model, held_out), step)
