"""A recurrent ReLU network over 64 steps is trained without clipping: one steep step, and its weights are gone."""

import torch
from common import CLASSES, batches, clusters, endless, start
from torch import nn
from torch.nn.functional import cross_entropy

EXPECT = {
    "kinds": ["nonfinite-loss", "nonfinite-grad", "exploding-gradients", "divergence"],
    "where": ".*",
    "steps": [0, 499],
}


class Recurrent(nn.Module):
    """Reads one feature a step, and answers at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.RNN(1, 64, nonlinearity="relu", batch_first=True)
        self.head = nn.Linear(64, CLASSES)
        nn.init.eye_(self.rnn.weight_hh_l0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of the points."""
        return self.head(self.rnn(x.unsqueeze(-1))[0][:, -1])


seed = start()
data = batches(clusters(seed, spread=0.5), 64)
model = Recurrent()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)

for x, y in endless(data, 500):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
