"""A Wasserstein critic without gradient penalty or clipping: nothing bounds it, and its gradients grow without end."""

import torch
from common import batches, clusters, endless, perceptron, start

EXPECT = {"kinds": ["exploding-gradients", "divergence"], "where": ".*", "steps": [0, 699]}

seed = start()
data = batches(clusters(seed), 64)
critic, generator = perceptron(64, 192, 192, 192, 192, 1), perceptron(16, 192, 64)
for_critic = torch.optim.Adam(critic.parameters(), lr=1e-3)
for_generator = torch.optim.Adam(generator.parameters(), lr=1e-4)

for step, (real, _) in enumerate(endless(data, 700)):
    fake = generator(torch.randn(64, 16))
    for_critic.zero_grad()
    loss = critic(fake.detach()).mean() - critic(real).mean()
    loss.backward()
    for_critic.step()
    if step % 5 == 4:
        for_generator.zero_grad()
        loss = -critic(fake).mean()
        loss.backward()
        for_generator.step()
