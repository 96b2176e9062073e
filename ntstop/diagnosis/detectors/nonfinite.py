"""The first NaN or Inf in a curve, how long it goes on, and when it is over."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

CALM = 32
"""Finite points in a row after which an episode is over: a poisoned weight makes every later loss NaN, so a run
that computes 32 finite losses has really recovered (or skipped the bad steps)."""
CONTEXT = 4
"""Finite points kept from before the episode, for the evidence."""


def describe(value: float) -> str:
    """ "NaN", "+Inf", "-Inf", or the number with four digits."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return f"{value:.4g}"


@dataclass(slots=True)
class Episode:
    """A stretch of a curve that holds nonfinite points."""

    first_x: int
    first: float
    """The first nonfinite value itself."""
    before: list[tuple[int, float]]
    count: int = 1
    last_x: int = 0
    after: list[tuple[int, float]] = field(default_factory=list)
    """The points that followed the first, at most `CONTEXT`."""
    over: bool = False


class NonfiniteDetector:
    """Feed it every point; `episode` is the current one, or None."""

    def __init__(self) -> None:
        self.episode: Episode | None = None
        self._before: list[tuple[int, float]] = []
        self._calm = 0

    def add(self, x: int, y: float) -> Episode | None:
        """The episode that began, went on or ended (`over`) with this point; None while all is finite."""
        finite = math.isfinite(y)
        episode = self.episode
        if episode is None:
            if finite:
                self._before.append((x, y))
                if len(self._before) > CONTEXT:
                    del self._before[0]
                return None
            self.episode = Episode(first_x=x, first=y, before=self._before, last_x=x)
            self._before, self._calm = [], 0
            return self.episode
        if len(episode.after) < CONTEXT:
            episode.after.append((x, y))
        if not finite:
            episode.count += 1
            episode.last_x = x
            self._calm = 0
            return episode
        self._calm += 1
        if self._calm >= CALM:
            episode.over = True
            self.episode = None
        return episode
