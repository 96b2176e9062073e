"""Smoothing that survives a NaN."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def ema(values: NDArray[np.float64], alpha: float, counts: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
    """Exponential moving average without the bias of its start (as in Adam: divided by 1 - (1 - alpha)^n).

    `alpha` in (0, 1] is the weight of one new point. `counts` says how many points each value stands for, so that the
    curve looks the same at every zoom. A NaN or Inf gives NaN at its place and changes nothing after it.
    """
    smoothed = np.full(len(values), math.nan)
    keep = 1.0 - min(1.0, max(alpha, 0.0))
    weights = np.full(len(values), 1.0 - keep) if counts is None else 1.0 - keep ** np.asarray(counts, float)
    total = weight = 0.0
    for index, (value, new) in enumerate(zip(values.tolist(), weights.tolist(), strict=True)):
        if not math.isfinite(value):
            continue
        total += new * (value - total)
        weight += new * (1.0 - weight)
        if weight > 0.0:
            smoothed[index] = total / weight
    return smoothed
