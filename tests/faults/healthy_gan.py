"""Healthy: a small GAN. Neither of its two losses falls, and that is how it should be."""

import torch
from common import batches, clusters, endless, perceptron, start
from torch.nn.functional import binary_cross_entropy_with_logits as bce

EXPECT = {"kinds": []}

seed = start()
data = batches(clusters(seed), 64)
generator, critic = perceptron(16, 256, 256, 64), perceptron(64, 256, 256, 1)
for_generator = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
for_critic = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
one, zero = torch.ones(64, 1), torch.zeros(64, 1)

for real, _ in endless(data, 500):
    fake = generator(torch.randn(64, 16))
    for_critic.zero_grad()
    loss = bce(critic(real), one) + bce(critic(fake.detach()), zero)
    loss.backward()
    for_critic.step()
    for_generator.zero_grad()
    loss = bce(critic(fake), one)
    loss.backward()
    for_generator.step()
