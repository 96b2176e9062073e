"""Q-learning from replayed steps: the loss leaps up whenever the target network is renewed."""

from copy import deepcopy

import torch
from common import perceptron, start
from torch.nn.functional import smooth_l1_loss

EXPECT = {"kinds": []}

start()
network = perceptron(8, 64, 64, 4)
target = deepcopy(network)
optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
reward, dynamics = torch.randn(8, 4), torch.randn(4, 8, 8) * 0.35
state = torch.randn(32, 8)
memory: list[tuple[torch.Tensor, ...]] = []

for step in range(1200):
    with torch.no_grad():
        action = network(state).argmax(1)
        explores = torch.rand(32) < max(0.05, 1 - step / 600)
        action[explores] = torch.randint(0, 4, (int(explores.sum()),))
        after = torch.tanh(torch.einsum("bij,bj->bi", dynamics[action], state) + 0.3 * torch.randn(32, 8))
        gain = 1.0 + (after @ reward).gather(1, action[:, None])[:, 0]
    memory.append((state, action, gain, after))
    state = after
    drawn = [memory[int(torch.randint(0, len(memory), (1,)))] for _ in range(8)]
    before, chosen, gained, later = (torch.cat(parts) for parts in zip(*drawn, strict=True))
    with torch.no_grad():
        value = gained + 0.99 * target(later).max(1).values
    loss = smooth_l1_loss(network(before).gather(1, chosen[:, None])[:, 0], value)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        target.load_state_dict(network.state_dict())
