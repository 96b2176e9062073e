"""What is compared, how long, and what must be installed for it. Free of torch."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

WATCHERS = {
    "bare": None,
    "ntstop timing": None,
    "ntstop layers": None,
    "traceml-ai": ("traceml-ai", "traceml_ai"),
    "wandb.watch": ("wandb", "wandb"),
}
"""What may watch a training, and the distribution and module it needs, which are not among the project's own."""


@dataclass(frozen=True)
class Plan:
    """How a workload is measured: so that each takes two or three minutes."""

    warm_up: int
    """Steps before the first block: lazy imports, the search for names, the first looks at the layers."""
    settle: int
    """Steps of a block that are not counted."""
    steps: int
    """Steps of a block that are."""
    rounds: int
    wandb_every: int
    """Steps between the histograms of wandb; 1,000 is its default, and none would be seen of it in so few steps."""
    gigabytes: float
    """Memory of one process."""


PLANS = {
    "mlp": Plan(400, 5, 40, 100, 1000, 0.5),
    "transformer": Plan(10, 1, 3, 12, 20, 0.6),
    "gpt2": Plan(9, 0, 1, 4, 4, 2.8),
}


def missing(watcher: str) -> str | None:
    """The distribution to install before `watcher` can be measured; None when it is there."""
    needed = WATCHERS[watcher]
    return needed[0] if needed is not None and importlib.util.find_spec(needed[1]) is None else None
