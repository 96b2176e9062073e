"""Healthy: two models are trained in turn, a hundred steps each, with losses on quite different levels."""

import torch
from common import batches, clusters, endless, perceptron, start, wide
from torch.nn.functional import cross_entropy

EXPECT = {"kinds": []}

seed = start()
data = batches(clusters(seed))
classifier, coder = wide(), perceptron(64, 256, 32, 256, 64)
for_classifier = torch.optim.AdamW(classifier.parameters(), lr=1e-3)
for_coder = torch.optim.AdamW(coder.parameters(), lr=1e-3)

for step, (x, y) in enumerate(endless(data, 1000)):
    if step // 100 % 2 == 0:
        for_classifier.zero_grad()
        loss = cross_entropy(classifier(x), y)
        loss.backward()
        for_classifier.step()
    else:
        for_coder.zero_grad()
        loss = 10.0 * (coder(x) - x).square().mean()
        loss.backward()
        for_coder.step()
