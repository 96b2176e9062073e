"""Fetches that no backward has followed yet: were they for training, or was it an evaluation?"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(slots=True)
class Visit:
    """Fetches from one iterator: seconds spent in them and after them, and how many."""

    data: float = 0.0
    gap: float = 0.0
    count: int = 0
    ended: bool = False
    """The iterator had no more to give."""
    blind: bool = False
    """A fetch happened with gradients switched off."""
    training: bool = False
    """It came from the iterator that is trained on, which had no more to give when asked for a batch ahead."""


class Visits:
    """Undecided fetches by iterator, until a backward, an optimizer's step or the end of a step decides.

    Several in a row from one iterator, or all it had, or any with gradients off: an evaluation. Otherwise data for
    training: a batch fetched ahead, a batch that was skipped, one of several loaders that are read side by side.
    """

    def __init__(self) -> None:
        self.undecided: dict[Hashable, Visit] = {}
        self.trained: Hashable = None
        """The iterator whose batch a backward followed last."""

    def add(self, iterator: Hashable, data: float, gap: float, blind: bool) -> None:
        """A fetch of `data` seconds and the `gap` seconds after it came to an end without a backward."""
        visit = self.undecided.get(iterator)
        if visit is None:
            visit = self.undecided[iterator] = Visit()
        visit.data += data
        visit.gap += gap
        visit.count += 1
        visit.blind = visit.blind or blind

    def end(self, iterator: Hashable, seconds: float) -> tuple[bool, Visit | None]:
        """`iterator` is exhausted, which took `seconds`: (had it been visited, the evaluation if it was one)."""
        visit = self.undecided.get(iterator)
        if visit is None:
            return False, None
        visit.gap += seconds
        visit.ended = True
        visit.training = iterator is self.trained
        if visit.count > 1 and iterator is not self.trained:
            del self.undecided[iterator]
            return True, visit
        return True, None

    def decide(self, trained: Hashable) -> list[tuple[bool, Visit]]:
        """All visits so far, each with whether it was an evaluation. A backward followed a batch of `trained`."""
        decided = []
        for iterator, visit in self.undecided.items():
            ours = visit.training or iterator is trained or iterator is self.trained
            decided.append((visit.blind or (not ours and (visit.count > 1 or visit.ended)), visit))
        self.undecided.clear()
        return decided

    def goes_on(self, iterator: Hashable) -> bool:
        """Another fetch from `iterator` would make it an evaluation, as far as can be told."""
        return iterator in self.undecided and self.trained is not None and iterator is not self.trained
