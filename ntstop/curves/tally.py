"""What is known of all points of a curve one by one, and must not depend on which of them are still kept so."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(slots=True)
class Tally:
    """Counted as the points come: a bucket does not tell which of its values was the first, nor where its highest
    lies."""

    count: int = 0
    """Points in all, the nonfinite ones among them."""
    nonfinite: int = 0
    """Points that are NaN or Inf."""
    first_nonfinite_x: float | None = None
    """Step of the first NaN or Inf."""
    first_y: float | None = None
    """The first finite value."""
    highest: tuple[float, float] | None = None
    """The step that came first to the highest finite value, and that value."""

    def add(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> bool:
        """Count new points; whether they are all finite."""
        self.count += len(y)
        finite = np.isfinite(y)
        if finite.all():
            self._see(x, y)
            return True
        self._see(x[finite], y[finite])
        self.nonfinite += len(y) - int(np.count_nonzero(finite))
        if self.first_nonfinite_x is None:
            self.first_nonfinite_x = float(x[finite.argmin()])
        return False

    def _see(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> None:
        """Take in finite values."""
        if not len(y):
            return
        if self.first_y is None:
            self.first_y = float(y[0])
        at = int(y.argmax())
        if self.highest is None or y[at] > self.highest[1]:
            self.highest = float(x[at]), float(y[at])
