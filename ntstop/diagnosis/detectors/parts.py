"""The parts that a loss is the weighted sum of, where a job logs them: whether the weights are still the same."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST_ROWS: Final = 256
"""Logged steps that are kept; of more, every second one of the older half goes."""
MOST_STEPS: Final = 2048
"""Newest steps whose loss is known, at least: what is logged is judged behind up to 1,024 of them."""
MOST_PARTS: Final = 8
NEAR: Final = 48
"""Rows up to the best level that the weights are taken from."""
SPARE: Final = 6
"""Rows more than twice the parts that these must be."""
EXACT: Final = 5e-3
"""Share of the loss that 9 of 10 rows may leave over for it to be the sum of its parts: they are of the same batch, and
logged in six digits."""
CHANGED: Final = 0.05
"""Share of the loss that must be left over by the old weights, in the median of the newest rows."""
NEWEST: Final = 8
SURE: Final = 0.25
"""One part alone explains it when its weight moves so much more smoothly than that of any other would have to."""
LEVEL: Final = 5
"""Rows whose median is the level of a part."""
MOVED: Final = 1.25
"""Times its level by which a part has risen, or fallen: as much as a spike must."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part, where the loss was best and now; `weight` in the loss, None where that is not known."""

    name: str
    before_x: int
    before: float
    now_x: int
    now: float
    weight: float | None = None

    @property
    def way(self) -> int:
        """1 where it rose, -1 where it fell, else 0."""
        high, low = max(self.before, self.now), min(self.before, self.now)
        if low <= 0 or high < MOVED * low:
            return 0
        return 1 if self.now > self.before else -1


@dataclass(frozen=True, slots=True)
class Parts:
    """What the parts say about a loss that rose."""

    parts: list[Part]
    by_old: float | None = None
    """The loss that the weights of before would give now; None when it is not the sum of its parts."""
    changed: bool = False
    """By these weights it is not the loss any more."""
    grown: tuple[str, float, float] | None = None
    """The one part whose weight explains it, with that before and now."""
    since_x: int | None = None
    """The first step that was logged from which on they are not."""

    @property
    def apart(self) -> bool:
        """Some rose and some fell."""
        ways = {part.way for part in self.parts}
        return {1, -1} <= ways


@dataclass(slots=True)
class _Row:
    """What was logged at step `x`, and the loss of that step and of the one before: jobs count from 0 or from 1."""

    x: int
    losses: tuple[float | None, float | None]
    values: dict[str, float] = field(default_factory=dict)


class PartsWatch:
    """Feed it the loss of every step, and the parts as they are logged."""

    def __init__(self) -> None:
        self._steps: deque[tuple[range | NDArray[np.int64], Floats]] = deque()
        self._held = 0
        self._rows: list[_Row] = []

    def steps(self, x: Sequence[int], losses: Floats) -> None:
        """The losses of a block."""
        # A list of numbers is four times an array of them, and thousands of steps are kept.
        self._steps.append((x if isinstance(x, range) else np.asarray(x), losses))
        self._held += len(losses)
        while self._held - len(self._steps[0][1]) >= MOST_STEPS:
            self._held -= len(self._steps.popleft()[1])

    def add(self, x: int, name: str, value: float) -> None:
        """One finite number of a part."""
        rows = self._rows
        if not rows or rows[-1].x != x:
            while rows and rows[-1].x > x:
                rows.pop()
            rows.append(_Row(x, (self._loss(x), self._loss(x - 1))))
            if len(rows) > MOST_ROWS:
                del rows[1 : MOST_ROWS // 2 : 2]
        rows[-1].values[name] = value

    def _loss(self, x: int) -> float | None:
        for steps, losses in reversed(self._steps):
            if steps[0] <= x <= steps[-1]:
                at = int(np.searchsorted(steps, x))
                return float(losses[at]) if steps[at] == x and np.isfinite(losses[at]) else None
        return None

    def since(self, x: int) -> Parts | None:
        """What the parts have done since the loss was best up to step `x`; None when too few were logged."""
        counts: dict[str, int] = {}
        for row in self._rows:
            for name in row.values:
                counts[name] = counts.get(name, 0) + 1
        names = sorted(name for name, count in counts.items() if count == max(counts.values()))[:MOST_PARTS]
        rows = [row for row in self._rows if all(name in row.values for name in names)]
        known = [(row.losses[0], row.x) for row in rows if row.x <= x and row.losses[0] is not None]
        best_x = min(known, default=(None, x))[1]
        before, now = [row for row in rows if row.x <= best_x][-NEAR:], [row for row in rows if row.x > best_x]
        if not names or len(before) < LEVEL or len(now) < LEVEL:
            return None
        best = None
        for shift in (0, 1):
            best = best or _weighed(names, before, now, shift)
        return best or Parts(_parts(names, before, now, {}))


def _weighed(names: list[str], before: list[_Row], now: list[_Row], shift: int) -> Parts | None:
    """The same with the weights, where the loss was the weighted sum of these parts."""
    known, y = _table(names, before, shift)
    later, y_now = _table(names, now, shift)
    # The loss itself under a name of a part says nothing.
    own = [at for at in range(len(names)) if len(y) and np.allclose(known[:, at], y, rtol=1e-4)]
    keep = [at for at in range(len(names)) if at not in own]
    if not keep or len(y) < 2 * len(keep) + SPARE or len(y_now) < LEVEL:
        return None
    known, later = known[:, keep], later[:, keep]
    weights = np.asarray(np.linalg.lstsq(known, y, rcond=None)[0], dtype=np.float64)
    if np.quantile(np.abs(y - known @ weights), 0.9) > EXACT * np.median(np.abs(y)):
        return None
    by_old: Floats = later @ weights
    newest = slice(-NEWEST, None)
    left = np.median(np.abs(y_now[newest] - by_old[newest])) / max(float(np.median(np.abs(y_now[newest]))), 1e-12)
    used = [names[at] for at in keep]
    changed = bool(left >= CHANGED)
    off = np.abs(y_now - by_old) > 2 * EXACT * np.abs(y_now)
    same = np.flatnonzero(~off)
    first = int(same[-1]) + 1 if len(same) else 0
    return Parts(
        _parts(used, before, now, dict(zip(used, weights.tolist(), strict=True))),
        by_old=float(np.median(by_old[newest])),
        changed=changed,
        grown=_grown(used, weights, later, y_now - by_old) if changed else None,
        since_x=[row.x for row in now if row.losses[shift] is not None][first] if changed and off[-1] else None,
    )


def _grown(names: list[str], weights: Floats, parts: Floats, left: Floats) -> tuple[str, float, float] | None:
    """Whose weight alone would have to change, and does so smoothly."""
    if len(left) < NEWEST or (parts == 0).any():
        return None
    needed = weights + left[:, None] / parts
    rough = np.median(np.abs(np.diff(needed, 2, axis=0)), axis=0) / np.maximum(np.median(np.abs(needed), axis=0), 1e-12)
    order = np.argsort(rough)
    at = int(order[0])
    if len(names) > 1 and rough[at] > SURE * rough[int(order[1])]:
        return None
    return names[at], float(weights[at]), float(needed[-1, at])


def _table(names: list[str], rows: list[_Row], shift: int) -> tuple[Floats, Floats]:
    known = [row for row in rows if row.losses[shift] is not None]
    table = np.array([[row.values[name] for name in names] for row in known], dtype=np.float64)
    return table.reshape(len(known), len(names)), np.array([row.losses[shift] for row in known], dtype=np.float64)


def _parts(names: list[str], before: list[_Row], now: list[_Row], weights: dict[str, float]) -> list[Part]:
    first, last = before[-LEVEL:], now[-LEVEL:]
    return [
        Part(
            name,
            first[-1].x,
            median(row.values[name] for row in first),
            last[-1].x,
            median(row.values[name] for row in last),
            weights.get(name),
        )
        for name in names
    ]
