"""At step 70 the optimizer waits on a condition of an asynchronous checkpoint writer that has died."""

import threading

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": ["stall"], "where": "optimizer", "steps": [69, 71], "phase": "optimizer", "look_after": 24}


class Guarded(torch.optim.AdamW):
    """Steps only while no checkpoint is being written."""

    steps = 0
    written = threading.Event()

    def step(self, closure: None = None) -> None:
        """Wait for the writer, then step."""
        self.steps += 1
        if self.steps > 70:
            self.written.wait()
        super().step(closure)


seed = start()
data = batches(clusters(seed))
model = wide()
optimizer = Guarded(model.parameters(), lr=1e-3)

for x, y in endless(data, 400):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
