"""Which curves are shown and in which order: filter, order, pins, the chosen one, and those laid over each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..run.names import in_order

MOST_OVERLAID = 6
"""Curves in one chart; more of them nobody tells apart."""
ORDERS = ("kind", "name", "newest")
"""By what they are of; by name; those whose newest point is furthest first."""


@dataclass
class CurveChoice:
    """What the user has chosen among the curves of a run."""

    names: Sequence[str] = ()
    """All there are."""
    filter: str = ""
    order: str = "kind"
    is_reversed: bool = False
    pinned: list[str] = field(default_factory=list)
    """Stand before all others."""
    overlaid: list[str] = field(default_factory=list)
    """Laid over each other in the large chart."""
    chosen: str | None = None
    is_large: bool = False
    """One chart fills the screen."""

    def shown(self, newest: Callable[[str], float]) -> list[str]:
        """The curves that are shown, in order; `newest` gives the last step of each."""
        words = self.filter.lower().split()
        names = [name for name in self.names if all(word in name.lower() for word in words)]
        names = in_order(names) if self.order == "kind" else sorted(names)
        if self.order == "newest":
            names.sort(key=newest, reverse=True)
        if self.is_reversed:
            names.reverse()
        return [name for name in self.pinned if name in names] + [name for name in names if name not in self.pinned]

    def together(self) -> list[str]:
        """The curves of the large chart: the chosen one, and those laid over it; no more than can be told apart."""
        chosen = [self.chosen] if self.chosen else []
        return [*chosen, *(name for name in self.overlaid if name != self.chosen)][:MOST_OVERLAID]

    def move(self, offset: int, shown: Sequence[str]) -> None:
        """Choose the curve `offset` places on; stops at the ends."""
        if shown:
            place = shown.index(self.chosen) if self.chosen in shown else 0
            self.chosen = shown[min(max(place + offset, 0), len(shown) - 1)]

    def next_order(self) -> None:
        """The next of `ORDERS`."""
        self.order = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)]

    def pin(self) -> None:
        """Pin the chosen curve, or no longer."""
        _toggle(self.pinned, self.chosen)

    def overlay(self) -> bool:
        """Lay the chosen curve over the others, or no longer; False where there are too many."""
        if self.chosen not in self.overlaid and len(self.overlaid) >= MOST_OVERLAID:
            return False
        _toggle(self.overlaid, self.chosen)
        return True


def _toggle(names: list[str], name: str | None) -> None:
    if name in names:
        names.remove(name)
    elif name is not None:
        names.append(name)
