"""Each step draws one of four operations in each of three layers: most layers have no gradient in most steps."""

import torch
from common import CLASSES, FEATURES, batches, clusters, endless, start
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": []}


class Paths(nn.Module):
    """A network of which every forward pass uses another part."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleList(nn.Linear(FEATURES, FEATURES) for _ in range(4)) for _ in range(3))
        self.head = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        for operations in self.layers:
            assert isinstance(operations, nn.ModuleList)
            x = x + operations[int(torch.randint(0, 4, (1,)))](x).relu()
        return self.head(x)


seed = start()
model = Paths()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

for x, y in endless(batches(clusters(seed)), 800):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
