"""The dataset is a list of Python objects: as workers touch them, their reference counts copy the pages one by one."""

import torch
from common import clusters, endless, start, wide
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset

EXPECT = {"kinds": ["memory-growth"], "where": ".*", "steps": [0, 2000]}


class Listed(Dataset[tuple[torch.Tensor, int]]):
    """Points, each with a list of metadata as Python objects."""

    def __init__(self, seed: int) -> None:
        self.x, self.y = clusters(seed).tensors
        self.notes = [[f"{index}:{part}" for part in range(80)] for index in range(len(self.x))]

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.x[index], int(self.y[index]) * bool(self.notes[index][0])


if __name__ == "__main__":
    seed = start()
    data = DataLoader(
        Listed(seed), batch_size=64, shuffle=True, num_workers=2, prefetch_factor=8, persistent_workers=True
    )
    model = wide()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for x, y in endless(data, 2000):
        optimizer.zero_grad()
        loss = cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
