"""The dataset decodes each batch in the training process, for five times as long as the step itself takes."""

import time

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

EXPECT = {"kinds": ["input-bound"], "where": ".*", "steps": [0, 150], "phase": "data|load|input"}


class Decoded(TensorDataset):
    """Points that take 8 ms a batch to read."""

    def __getitem__(self, index: list[int]) -> tuple[torch.Tensor, ...]:
        time.sleep(0.008)
        return super().__getitem__(index)


seed = start()
data = batches(Decoded(*clusters(seed).tensors))
model = wide()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for x, y in endless(data, 400):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
