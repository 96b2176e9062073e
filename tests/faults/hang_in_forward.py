"""At step 80 a layer waits for the answer of a feature server that is down."""

import socket

import torch
from common import batches, clusters, endless, start, wide
from torch import nn
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": ["stall"], "where": "forward", "steps": [79, 81], "phase": "forward", "look_after": 24}


class Remote(nn.Module):
    """Asks a server now and then; the server stops to answer."""

    def __init__(self) -> None:
        super().__init__()
        self.here, self.there = socket.socketpair()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """What the server says, which is `x`."""
        self.calls += 1
        if self.calls > 80:
            self.here.recv(1)
        return x


seed = start()
data = batches(clusters(seed))
model = nn.Sequential(Remote(), wide())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for x, y in endless(data, 400):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
