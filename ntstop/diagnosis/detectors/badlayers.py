"""What one sample of the layers says of numbers that are not finite: which layers, and whose fault it cannot be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..finding import Evidence
from ..layer_names import listed

Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class BadLayers:
    """Layers with a nonfinite gradient (or weight) in one sample, in the order of the schema."""

    ordinal: int
    x: int
    names: list[str]
    of: int
    what: str
    """"gradient" or "parameter norm"."""
    finite: list[str]
    """Layers behind the last of `names` whose gradient is finite in this sample."""
    poisoned: list[str]
    """Layers whose weights were not finite before this step's update."""

    @property
    def everywhere(self) -> bool:
        """Every one of several layers: which stands first is then the order of the model, and no cause."""
        return len(self.names) == self.of > 1

    @property
    def poisoned_everywhere(self) -> bool:
        """The same of the weights."""
        return len(self.poisoned) == self.of > 1

    def evidence(self) -> Evidence:
        """Which layers, and which one stands first."""
        named = "" if self.everywhere else f": {listed(self.names)}"
        return Evidence(
            f"nonfinite {self.what} in {len(self.names)} of {self.of} layers at step {self.x:,}{named}",
            "grad_nonfinite" if self.what == "gradient" else "param_norm",
            self.x,
            float(len(self.names)),
            "layers",
        )

    def border(self) -> Evidence | None:
        """Between which layers the operation lies: backward goes from the finite ones to the others."""
        if self.what != "gradient" or not self.finite:
            return None
        text = f"finite in {listed(self.finite)}: backward made it between {self.finite[0]} and {self.names[-1]}"
        return Evidence(text, "grad_nonfinite", self.x, float(len(self.finite)), "layers")


def bad_layers(ordinal: int, x: int, names: list[str], columns: dict[str, list[float | None]]) -> BadLayers | None:
    """The layers of a sample whose gradient, else whose weight, is not finite; None when all are."""
    flags = columns.get("grad_nonfinite") or []
    norms = columns.get("grad_norm") or []
    poisoned = [name for name, norm in zip(names, columns.get("param_norm") or [], strict=False) if nonfinite(norm)]
    grads: list[str] = []
    finite: list[str] = []
    for index, name in enumerate(names):
        norm = norms[index] if index < len(norms) else None
        if (index < len(flags) and flags[index]) or nonfinite(norm):
            grads.append(name)
            finite.clear()
        elif norm is not None:
            finite.append(name)
    if grads:
        return BadLayers(ordinal, x, grads, len(names), "gradient", finite, poisoned)
    return BadLayers(ordinal, x, poisoned, len(names), "parameter norm", finite, poisoned) if poisoned else None


def nothing_but_zeros(columns: dict[str, list[float | None]]) -> bool:
    """Every gradient of the sample is exactly 0."""
    norms = [norm for norm in columns.get("grad_norm") or [] if norm is not None]
    return bool(norms) and not any(norms)


def nonfinite(value: float | None) -> bool:
    """NaN or Inf; a number that is missing is neither."""
    return value is not None and not math.isfinite(value)
