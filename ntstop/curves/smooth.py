"""Smoothing that survives a NaN."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from .buckets import Buckets

SHARES = {"off": 0.0, "light": 0.01, "strong": 0.05}
"""What a moving average reaches back over, as a share of the axis in view."""
_LEAST_REACH = 5.0
"""Points; fewer than that smooth nothing."""


def smoothed(buckets: Buckets, how: str, width: float) -> NDArray[np.float64]:
    """The means of `buckets`, smoothed as `how` (a key of `SHARES`) says for a view that is `width` steps wide.

    The average starts anew where the steps went backwards. Of an even curve it stays the same while the curve grows.
    """
    if how == "off" or not len(buckets):
        return buckets.mean
    # Steps between points, not points over steps.
    density = (float(buckets.count.sum()) - 1.0) / max(float(buckets.x_last[-1] - buckets.x_first[0]), 1.0)
    reach = max(SHARES[how] * width * density, _LEAST_REACH)
    borders = [0, *(np.flatnonzero(np.diff(buckets.segment)) + 1).tolist(), len(buckets)]
    alpha = 2.0 / (reach + 1.0)
    parts = [ema(buckets.mean[a:b], alpha, buckets.count[a:b]) for a, b in itertools.pairwise(borders)]
    return np.concatenate(parts)


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
