"""A curve in a handful of cells, for a line of text. Free of textual."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_LEVELS = "▁▂▃▄▅▆▇█"
_ASCII_LEVELS = "_.-~=+*#"


def spark(
    values: NDArray[np.float64], width: int, ascii: bool = False, *, low: float | None = None, high: float | None = None
) -> str:
    """The last values as `width` cells, each the mean of its share of them, padded with spaces on the left.

    `low` and `high` fix the ends of the scale (a utilization: 0 and 1); by default the extent of what is shown. A cell
    whose values are all missing is a space; one with nothing but NaN and Inf among them cannot be told from that.
    """
    values = np.asarray(values, np.float64)
    if width < 1 or not len(values):
        return " " * max(width, 0)
    means = _means(values, min(width, len(values)))
    known = np.isfinite(means)
    if not known.any():
        return " " * width
    bottom = float(means[known].min()) if low is None else low
    top = float(means[known].max()) if high is None else high
    levels = _ASCII_LEVELS if ascii else _LEVELS
    with np.errstate(all="ignore"):
        position = (means / 2 - bottom / 2) / (top / 2 - bottom / 2) if top > bottom else np.full(len(means), 0.5)
    index = np.clip(np.nan_to_num(position) * len(levels), 0, len(levels) - 1).astype(int)
    return "".join(levels[i] if there else " " for i, there in zip(index, known, strict=True)).rjust(width)


def _means(values: NDArray[np.float64], cells: int) -> NDArray[np.float64]:
    """The mean of the finite values in each of `cells` even shares, NaN where there are none."""
    starts = np.linspace(0, len(values), cells, endpoint=False).astype(np.int64)
    finite = np.isfinite(values)
    count = np.add.reduceat(finite.astype(np.int64), starts)
    share = np.maximum(np.repeat(count, np.diff(np.append(starts, len(values)))), 1)
    # Divided before they are added, so that huge values do not overflow.
    total = np.add.reduceat(np.where(finite, values, 0.0) / share, starts)
    return np.where(count > 0, total, np.nan)
