"""From batch 400 on the files are on a cold disk: each batch takes 8 ms longer than before."""

import time

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

EXPECT = {
    "kinds": ["input-bound", "step-time-regression"],
    "where": ".*",
    "steps": [390, 480],
    "phase": "data|load|input",
}


class Decoded(TensorDataset):
    """Points that become slow to read."""

    served = 0

    def __getitem__(self, index: list[int]) -> tuple[torch.Tensor, ...]:
        self.served += 1
        if self.served > 400:
            time.sleep(0.008)
        return super().__getitem__(index)


seed = start()
data = batches(Decoded(*clusters(seed).tensors))
model = wide()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for x, y in endless(data, 700):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
