"""Of two ranks the second has a slow disk: from step 100 on its batches take longer, and the first waits for it."""

import os
import time

import torch
import torch.distributed as dist
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import TensorDataset

EXPECT = {"kinds": ["straggler"], "where": ".*", "steps": [80, 260], "ranks": 2, "rank": 1}


class Decoded(TensorDataset):
    """Points that become slow to read on one rank."""

    served = 0

    def __getitem__(self, index: list[int]) -> tuple[torch.Tensor, ...]:
        self.served += 1
        if os.environ["RANK"] == "1" and self.served > 100:
            time.sleep(0.006)
        return super().__getitem__(index)


seed = start()
torch.set_num_threads(1)
dist.init_process_group("gloo")
data = batches(Decoded(*clusters(seed + dist.get_rank()).tensors))
model = DistributedDataParallel(wide())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for x, y in endless(data, 500):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
