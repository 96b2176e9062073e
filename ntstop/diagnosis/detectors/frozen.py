"""Parameters that do not move: exact zeros in the update ratio, or norms that are bitwise the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MIN_SAMPLES = 5
MIN_STEPS = 20
"""Five samples over at least 20 steps: a step or two may be skipped (loss scaling, accumulation)."""
UNGRADED_STEPS = 8
"""Where there is no gradient at all, nothing can have been skipped: the looks at steps 0, 1, 2, 4 and 8 tell."""


@dataclass(slots=True)
class Still:
    """No parameter moved from `first_x` to `last_x`; `how` names the evidence, "update_ratio" or "param_norm"."""

    how: str
    first_x: int
    last_x: int
    samples: int
    norms: list[float | None]


class FrozenDetector:
    """Feed it the layer samples of one schema that were taken at a learning rate above zero."""

    def __init__(self, samples: int = MIN_SAMPLES) -> None:
        self._least = samples
        self._first_x = 0
        self._last_x = 0
        self._samples = 0
        self._ratios = 0
        self._norms: list[float | None] | None = None

    @property
    def standing(self) -> bool:
        """Whether nothing moved in the samples since the last one that did: two or more."""
        return self._samples > 1

    def reset(self) -> None:
        """Something moved, or the layers are others now."""
        self._samples = self._ratios = 0
        self._norms = None

    def add(
        self,
        x: int,
        norms: Sequence[float | None] | None,
        ratios: Sequence[float | None] | None,
        least: int = MIN_STEPS,
    ) -> Still | None:
        """What stands still by now, None while anything moves or it is too early to say: `least` steps.

        `norms` and `ratios` are the layers that ought to move, in one order, None where nothing was measured.
        """
        measured = [ratio for ratio in ratios or () if ratio is not None]
        known = list(norms) if norms is not None and any(norm is not None for norm in norms) else None
        if any(ratio != 0.0 for ratio in measured):
            self.reset()
            return None
        if known is not None and self._norms is not None and known != self._norms:
            self.reset()
        if not measured and known is None:
            return None
        if self._samples == 0:
            self._first_x = x
        self._samples += 1
        self._last_x = x
        self._ratios += bool(measured)
        if known is not None:
            self._norms = known
        if self._samples < self._least or self._last_x - self._first_x < least:
            return None
        how = "update_ratio" if self._ratios >= self._least else "param_norm"
        if how == "param_norm" and self._norms is None:
            return None
        return Still(how, self._first_x, self._last_x, self._samples, self._norms or [])
