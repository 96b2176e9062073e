"""From step 200 on the second layer has a large negative bias, as after a bad update: no unit fires again."""

import torch
from common import CLASSES, batches, clusters, endless, start
from torch import nn
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": ["dead-layer"], "where": r"\b[02]\b|first|second", "steps": [195, 330]}

seed = start()
data = batches(clusters(seed))
model = nn.Sequential()
for name, module in [("first", nn.Linear(64, 384)), ("a", nn.ReLU()), ("second", nn.Linear(384, 384)), ("b", nn.ReLU()),
                     ("last", nn.Linear(384, CLASSES))]:  # fmt: skip
    model.add_module(name, module)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for step, (x, y) in enumerate(endless(data, 900)):
    if step == 200:
        with torch.no_grad():
            model.second.bias.fill_(-1000.0)
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
