"""From step 150 on two views are the same: the gradient of their distance is 0/0, the loss scale falls to 0."""

import torch
from common import batches, clusters, endless, start, wide
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": ["loss-scale-collapse", "nonfinite-grad"], "where": ".*", "steps": [145, 200]}

seed = start()
data = batches(clusters(seed), 64)
model = wide()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)

for step, (x, y) in enumerate(endless(data, 500)):
    optimizer.zero_grad()
    view = x + 0.1 * torch.randn_like(x) if step < 150 else x  # the augmentation was switched off
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits, other = model(x).float(), model(view).float()
    loss = cross_entropy(logits, y) + 0.01 * (logits - other).square().sum(-1).sqrt().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
