"""What may be set about the hooks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class HookSettings:
    """`budget`: share of the step time that looking at layers may take."""

    budget: float = 0.01
    layers: bool = True
    """Look at the layers at all; False: timing and loss only."""
    on_training: Callable[[], None] | None = None
    """Called once, on the training thread, at the first backward or optimizer step: this process trains."""
