"""Healthy: a policy gradient with a baseline. Its loss is noise around 0 from first to last, while rewards rise."""

import torch
from common import batches, clusters, endless, start, wide

EXPECT = {"kinds": []}

seed = start()
data = batches(clusters(seed, spread=0.8))
policy = wide()
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
baseline = 0.0

for x, y in endless(data, 900):
    choice = torch.distributions.Categorical(logits=policy(x))
    action = choice.sample()
    reward = (action == y).float()
    loss = -(choice.log_prob(action) * (reward - baseline)).mean()
    baseline = 0.9 * baseline + 0.1 * float(reward.mean())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
