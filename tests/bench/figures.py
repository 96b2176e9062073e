"""Medians, quantiles and errors as the benchmarks report them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of them lie."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def error_of_median(values: Sequence[float]) -> float:
    """Standard error, from the spread of the middle half: a few wild values do not move it."""
    if len(values) < 4:
        return float("nan")
    low, _, high = statistics.quantiles(values, n=4)
    return 1.253 * (high - low) / 1.349 / len(values) ** 0.5


def error_of_mean(values: Sequence[float]) -> float:
    """Standard error."""
    return statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")


def in_rows(rows: Sequence[Sequence[str]], *, markdown: bool) -> str:
    """A table, its heads first: aligned text, or Markdown."""
    if markdown:
        lines = [f"| {' | '.join(row)} |" for row in rows]
        return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
