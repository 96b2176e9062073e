"""What the demo trains: a character transformer, on the sources of the Python standard library."""

from __future__ import annotations

import hashlib
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

CONTEXT = 64
"""Characters that the model sees."""
_CORPUS = 2_000_000
"""Characters of text; an epoch at the default batch is far longer than the demo."""
_ALPHABET = "\n" + "".join(map(chr, range(32, 127)))


@dataclass(frozen=True, slots=True)
class Corpus:
    """Characters as numbers (int64, one dimension), cut into a training and a validation part."""

    train: Tensor
    validation: Tensor
    sha256: str
    """Of the text: the same Python gives the same data."""

    @property
    def vocabulary(self) -> int:
        """Number of different characters."""
        return len(_ALPHABET)


def read_corpus() -> Corpus:
    """The standard library's own sources, in the order of their names, the last tenth for validation.

    Raises `OSError` where Python came without its sources.
    """
    folder = Path(sysconfig.get_path("stdlib"))
    text, size = [], 0
    for path in sorted(folder.glob("*.py")):
        source = path.read_text(encoding="utf-8", errors="replace")
        text.append(source)
        size += len(source)
        if size >= _CORPUS:
            break
    if size < 100 * CONTEXT:
        raise OSError(f"{folder}: no sources of the standard library to train on")
    number = {character: index for index, character in enumerate(_ALPHABET)}
    numbers = [number[c] for c in "".join(text)[:_CORPUS] if c in number]
    data = torch.tensor(numbers)
    cut = len(data) * 9 // 10
    return Corpus(data[:cut], data[cut:], hashlib.sha256(bytes(numbers)).hexdigest())


class Windows(Dataset[tuple[Tensor, Tensor, Tensor]]):
    """Every window of `CONTEXT` characters: (characters, the ones that follow, the weight of each in the loss)."""

    def __init__(self, data: Tensor) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data) - CONTEXT

    def __getitem__(self, start: int) -> tuple[Tensor, Tensor, Tensor]:
        end = start + CONTEXT
        return self.data[start:end], self.data[start + 1 : end + 1], torch.ones(CONTEXT)


class Block(nn.Module):
    """Causal self-attention and a ReLU feed-forward layer, each behind a layer norm and beside the residual stream."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.attention_in = nn.Linear(width, 3 * width)
        self.attention_out = nn.Linear(width, width)
        self.forward_norm = nn.LayerNorm(width)
        self.forward_in = nn.Linear(width, 4 * width)
        self.forward_out = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        mixed = self.attention_in(self.attention_norm(x))
        q, k, v = mixed.view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attention_out(attended.transpose(1, 2).reshape(batch, length, width))
        hidden = functional.relu(self.forward_in(self.forward_norm(x)))
        return x + self.forward_out(hidden)


class CharTransformer(nn.Module):
    """Characters (batch × length, int64) to the logits of the next one (batch × length × vocabulary)."""

    def __init__(self, vocabulary: int, layers: int = 4, width: int = 128, heads: int = 4) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(CONTEXT, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary)
        for embedding in (self.embedding, self.position):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, characters: Tensor) -> Tensor:
        positions = torch.arange(characters.shape[1], device=characters.device)
        x = self.embedding(characters) + self.position(positions)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def weighted_loss(logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Mean cross-entropy in nats a character, each weighted."""
    losses = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    return (losses * weights.flatten()).sum() / weights.sum()
