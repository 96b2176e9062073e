"""Rules turn what detectors see into findings. One file a family; a new file here is found without a registration."""

from __future__ import annotations

import importlib
import pkgutil

from .base import ACROSS, REGISTRY, Rule, RunRule, across, rule

__all__ = ["ACROSS", "REGISTRY", "Rule", "RunRule", "across", "load", "rule"]


def load() -> list[type[Rule]]:
    """Every rule of every family, in a fixed order: families by name, rules as they stand in their file."""
    for module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        if module != "base":
            importlib.import_module(f"{__name__}.{module}")
    return sorted(REGISTRY, key=lambda kind: kind.__module__)
