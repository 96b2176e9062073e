"""The numbers that the diagnosis judges by: each with its unit, its meaning and where it comes from; all can be set."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Threshold:
    """One number. Its `name` is "<kind>.<what>" and part of the interface: people set it by that name."""

    name: str
    value: float
    """The default."""
    unit: str
    """"" where it is a pure number."""
    meaning: str
    """What the number is, then "Raised, " and what happens when it is."""
    source: str
    """Where the default comes from: a paper, a documentation, a measurement."""
    low: float
    high: float
    """The range that makes sense, both ends allowed."""

    @property
    def kind(self) -> str:
        """The kind of finding it belongs to."""
        return self.name.partition(".")[0]


REGISTRY: dict[str, Threshold] = {}


def threshold(
    name: str,
    value: float,
    *,
    meaning: str,
    source: str,
    unit: str = "",
    low: float = 0.0,
    high: float = math.inf,
) -> Threshold:
    """Declare a threshold beside the rule that reads it, with `context.value(IT)`."""
    if name in REGISTRY or not low <= value <= high:
        raise ValueError(f"threshold {name}: declared twice, or {value} is not within {low} to {high}")
    REGISTRY[name] = Threshold(name, value, unit, meaning, source, low, high)
    return REGISTRY[name]


class Thresholds:
    """The values in force: the defaults, and what the user has set.

    Raises `ValueError` with one line for a name that is none, or a value outside its range. All rules must be loaded.
    """

    def __init__(self, told: Mapping[str, float] | None = None) -> None:
        self._told = dict(told or {})
        for name, value in self._told.items():
            known = REGISTRY.get(name)
            if known is None:
                near = difflib.get_close_matches(name, REGISTRY, 1)
                hint = f"did you mean {near[0]}?" if near else "`ntstop explain KIND` lists those of a kind"
                raise ValueError(f"threshold {name}: there is none of this name; {hint}")
            if not known.low <= value <= known.high:
                raise ValueError(f"threshold {name}: {value:g} is not within {known.low:g} to {known.high:g}")

    def __getitem__(self, known: Threshold) -> float:
        return self._told.get(known.name, known.value)

    @property
    def told(self) -> dict[str, float]:
        """What the user has set, by name."""
        return dict(self._told)
