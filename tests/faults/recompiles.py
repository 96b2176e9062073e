"""The compiled model gets batches of another length in every step, and is not told that it may: it recompiles."""

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": ["recompile-storm"], "where": ".*", "steps": [0, 400]}

seed = start()
torch._dynamo.config.cache_size_limit = 512
torch._dynamo.config.accumulated_cache_size_limit = 4096
data = batches(clusters(seed))
model = wide()
compiled = torch.compile(model, backend="eager", dynamic=False)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for step, (x, y) in enumerate(endless(data, 120)):
    length = 128 - (step * 37) % 80
    optimizer.zero_grad()
    loss = cross_entropy(compiled(x[:length]), y[:length])
    loss.backward()
    optimizer.step()
