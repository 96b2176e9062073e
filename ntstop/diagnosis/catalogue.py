"""What the kinds of findings mean, for `ntstop explain` and the help: declared beside the rule that finds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Area = Literal[
    "update/memory/step profile",
    "precision/batching/recompute/compilation",
    "parallelism/collectives",
    "checkpoint/recovery",
    "performance",
]
"""Where to look when a finding of a kind is open."""

Family = Literal[
    "numerics",
    "optimization",
    "generalization",
    "input and compute",
    "memory",
    "liveness",
    "distributed",
    "recovery",
    "pipeline",
    "device",
    "reproducibility",
    "budget",
]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of finding."""

    name: str
    family: Family
    area: Area
    meaning: str
    """What it says about the run, in a sentence or two."""
    detector: str
    """What is looked at, and how it is decided."""
    severity: str
    """Which severities it takes, and when."""


KINDS: dict[str, Kind] = {}


def kind(name: str, family: Family, area: Area, *, meaning: str, detector: str, severity: str) -> Kind:
    """Declare a kind. Raises `ValueError` when it is known already."""
    if name in KINDS:
        raise ValueError(f"kind {name}: declared twice")
    KINDS[name] = Kind(name, family, area, meaning, detector, severity)
    return KINDS[name]
