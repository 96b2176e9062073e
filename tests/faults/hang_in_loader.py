"""The dataset waits at batch 60 for a lock that nobody gives back."""

import threading

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

EXPECT = {"kinds": ["stall"], "where": "data", "steps": [59, 61], "phase": "data", "look_after": 24}


class Locked(TensorDataset):
    """Points behind a lock."""

    served = 0

    def __getitem__(self, index: list[int]) -> tuple[torch.Tensor, ...]:
        self.served += 1
        if self.served > 60:
            threading.Event().wait()
        return super().__getitem__(index)


seed = start()
data = batches(Locked(*clusters(seed).tensors))
model = wide()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for x, y in endless(data, 400):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
