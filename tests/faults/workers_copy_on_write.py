"""The dataset is a list of Python objects: as workers touch them, their reference counts copy the pages one by one."""

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

EXPECT = {"kinds": ["memory-growth"], "where": ".*", "steps": [0, 2000]}


class Listed(TensorDataset):
    """Points, each with a list of metadata as Python objects."""

    def __init__(self, seed: int) -> None:
        super().__init__(*clusters(seed).tensors)
        self.notes = [[f"{index}:{part}" for part in range(80)] for index in range(len(self))]

    def __getitem__(self, index: list[int]) -> tuple[torch.Tensor, ...]:
        assert all(self.notes[one][0] for one in index)
        return super().__getitem__(index)


if __name__ == "__main__":
    seed = start()
    data = batches(Listed(seed), 64, num_workers=2, prefetch_factor=8, persistent_workers=True)
    model = wide()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for x, y in endless(data, 2000):
        optimizer.zero_grad()
        loss = cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
