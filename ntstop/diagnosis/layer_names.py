"""What the name of a parameter tells: which module it belongs to, and what that is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from ntstop_probe import wire

NAMED = 3
"""Names in a sentence; the rest are counted."""
_ADAPTER = re.compile(r"lora|adapter|prompt|prefix|(^|[._])ia3|bitfit|dora|(^|[._])peft", re.I)
_EXPERT = re.compile(r"(^|[._])experts?(?=[._\d]|$)", re.I)
_EMBEDDING = re.compile(r"emb|(^|\.)(wte|wpe|tok|vocab|lookup|codebook)", re.I)
_UNNAMED = re.compile(r"^\w+\.g\d+\.p\d+$")


def sizes_of(schema: wire.Schema) -> list[int]:
    """Elements of each layer; 1 for all where the schema does not say."""
    size = len(schema.names)
    return schema.numel if len(schema.numel) == size else [1] * size


def module_of(name: str) -> str:
    """ "encoder.0.weight" belongs to "encoder.0"; a name without a dot stands for itself."""
    return name.rpartition(".")[0] or name


def is_weight(name: str) -> bool:
    """Whether it is no bias."""
    return not name.rpartition(".")[2].startswith("bias")


def is_adapter(name: str) -> bool:
    """Whether it is a part of an adapter, such as LoRA's."""
    return _ADAPTER.search(name) is not None


def is_expert(name: str) -> bool:
    """Whether it is a part of an expert, which a router chooses for some of the inputs."""
    return _EXPERT.search(name) is not None


def is_embedding(name: str) -> bool:
    """Whether it is a table of which a step reads a few rows."""
    return _EMBEDDING.search(name) is not None


def is_named(name: str) -> bool:
    """Whether it is a parameter of a model: one that only an optimizer holds has a made-up name."""
    return _UNNAMED.match(name) is None


def listed(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def common(names: Sequence[str]) -> str:
    """The innermost module that all of the names are in; where there is none, the first name's module."""
    paths = [module_of(name).split(".") for name in names]
    shared = takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False))
    return ".".join(parts[0] for parts in shared) or module_of(names[0])
