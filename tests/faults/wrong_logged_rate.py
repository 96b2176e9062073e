"""The rate is multiplied by the number of ranks, 10, after it was logged: the log shows a tenth of the real one."""

import tempfile

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy
from torch.utils.tensorboard import SummaryWriter

EXPECT = {"kinds": ["lr-jump", "update-ratio-high", "contract-changed"], "where": ".*", "steps": [0, 300]}

RATE, RANKS = 2e-3, 10
seed = start()
data = batches(clusters(seed))
model = wide()
optimizer = torch.optim.AdamW(model.parameters(), lr=RATE * RANKS)
writer = SummaryWriter(tempfile.mkdtemp())

for step, (x, y) in enumerate(endless(data, 800)):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        writer.add_scalar("train/learning_rate", RATE, step)
