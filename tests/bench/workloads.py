"""The three trainings that what watches a run is measured on. Import torch first; one thread each.

mlp            three linear layers, a batch of 64: a step of 1–2 ms, where a fixed cost shows most
transformer    4 layers, d = 256, 4 × 128 characters: 100–400 ms
gpt2           GPT-2 124M in plain torch, 1 × 64 tokens, AdamW: one or two seconds, and 148 tensors of parameters
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

GPT2_VOCABULARY = 50_257


@dataclass(frozen=True)
class Workload:
    """A model and what one step of its training is."""

    model: nn.Module
    optimizer: Any
    batches: Iterator[Any]
    """Endless; each from a DataLoader."""
    loss: Callable[[Any], Any]
    """Forward, from a batch to a number."""

    def step(self, batch: Any) -> Any:
        """All of a step but the fetch; its loss."""
        self.optimizer.zero_grad()
        loss = self.loss(batch)
        loss.backward()
        self.optimizer.step()
        return loss


class Block(nn.Module):
    """A transformer block, norm first, as GPT-2 has it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width)
        self.attention = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.ln_2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        parts = self.attention(self.ln_1(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Transformer(nn.Module):
    """GPT-2 of any size, head tied to the token embedding."""

    def __init__(self, vocabulary: int, width: int, heads: int, layers: int, context: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Any) -> Any:
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln_f(x))


def mlp() -> Workload:
    model = nn.Sequential(nn.Linear(256, 448), nn.ReLU(), nn.Linear(448, 448), nn.ReLU(), nn.Linear(448, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    dataset = [(torch.randn(64, 256), torch.randint(0, 10, (64,))) for _ in range(512)]
    return Workload(
        model,
        optimizer,
        _endless(dataset),
        lambda batch: functional.cross_entropy(model(batch[0]), batch[1]),
    )


def transformer() -> Workload:
    return _language_model(Transformer(256, 256, 8, 4, 128), vocabulary=256, batch=4, length=128)


def gpt2() -> Workload:
    model = Transformer(GPT2_VOCABULARY, 768, 12, 12, 1024)
    return _language_model(model, vocabulary=GPT2_VOCABULARY, batch=1, length=64)


def _language_model(model: Any, vocabulary: int, batch: int, length: int) -> Workload:
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    dataset = [torch.randint(0, vocabulary, (batch, length + 1)) for _ in range(16)]

    def loss(tokens: Any) -> Any:
        logits = model(tokens[:, :-1])
        return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    return Workload(model, optimizer, _endless(dataset), loss)


def _endless(dataset: list[Any]) -> Iterator[Any]:
    loader: Any = DataLoader(dataset, batch_size=None)  # type: ignore[arg-type]
    while True:
        yield from loader


WORKLOADS: dict[str, Callable[[], Workload]] = {"mlp": mlp, "transformer": transformer, "gpt2": gpt2}
