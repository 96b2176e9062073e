"""Numbers of a step, as they were read: there already, or on their way from a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from .device import Tape


class Pending(Protocol):
    """A number on its way from a device. Once `ready`, `value` (None: lost) is final."""

    @property
    def ready(self) -> bool: ...

    @property
    def value(self) -> float | None: ...


Reading = float | Pending | None
"""A number that is there, is coming, or could not be read."""


@dataclass(slots=True)
class Norm:
    """A gradient norm that clipping measured."""

    norm: Reading
    limit: float | None
    """What it was clipped to; None: not clipped."""
    scale: Reading = None
    """What the gradients were multiplied by then, where a gradient scaler had not undone that before."""


@dataclass(slots=True)
class Readings:
    """The numbers of a step; its row gets what they come to."""

    losses: list[list[Reading]]
    """For each optimizer that had backwards of its own before its step: their roots."""
    norms: list[Norm]
    """Gradient norms before clipping, of all parts that were clipped."""
    scale: Reading = None
    tape: Tape | None = None
    """The phases on the device's clock, where there is one."""
