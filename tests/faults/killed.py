"""Something kills the process at step 130 with SIGKILL, as the kernel does when memory runs out."""

import os
import signal

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": ["died"], "where": ".*", "steps": [100, 131]}

seed = start()
data = batches(clusters(seed))
model = wide()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for step, (x, y) in enumerate(endless(data, 400)):
    if step == 130:
        os.kill(os.getpid(), signal.SIGKILL)
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
