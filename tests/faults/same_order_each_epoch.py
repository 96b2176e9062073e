"""`set_epoch` of the distributed sampler is never called: every epoch brings the same batches in the same order."""

import torch
from common import clusters, start, wide
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

EXPECT = {"kinds": ["data-order-repeats", "plateau"], "where": ".*", "steps": [0, 1200]}

seed = start()
dataset = clusters(seed, 4096, spread=3.0)
sampler: DistributedSampler[object] = DistributedSampler(dataset, num_replicas=1, rank=0, seed=seed)
data = DataLoader(dataset, batch_size=64, sampler=sampler)
model = wide()
optimizer = torch.optim.SGD(model.parameters(), lr=2e-3, momentum=0.9)

for _epoch in range(16):
    for x, y in data:
        optimizer.zero_grad()
        loss = cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
