"""Healthy: an embedding of 50,000 rows, of which a batch touches a few: nearly all of its gradient is exactly 0."""

import torch
from common import CLASSES, perceptron, start
from torch import nn
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": []}


class Bag(nn.Module):
    """The mean of the embeddings of the words, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50_000, 32)
        self.head = perceptron(32, 256, CLASSES)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Logits of the rows of words."""
        return self.head(self.embedding(words).mean(1) * 4.0)


seed = start()
model = Bag()
optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)

for _ in range(700):
    y = torch.randint(0, CLASSES, (64,))
    # Words are Zipfian; a few of them tell the class.
    common = (torch.rand(64, 12).pow(4) * 40_000).long() + 200
    telling = y[:, None] * 20 + torch.randint(0, 20, (64, 4))
    words = torch.cat([common, telling], 1)
    loss = cross_entropy(model(words), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
