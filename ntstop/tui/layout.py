"""Which panes there is room for. What does not fit is left out whole: loss, phases and findings stay longest."""

from __future__ import annotations

from .terminal import SMALLEST

TWO_COLUMNS = 100
"""Columns of the terminal from which two panes stand beside each other."""


def layout_classes(width: int, height: int) -> dict[str, bool]:
    """Classes of the overview for a terminal of this size, and whether each is on."""
    is_wide = width >= TWO_COLUMNS
    return {
        "-one-column": not is_wide,
        "-no-layers": height < (26 if is_wide else 44),
        "-no-host": height < (22 if is_wide else 34),
        "-no-phases": height < (10 if is_wide else 18),
        # Too low for a chart of them: their shares alone.
        "-shares-only": not is_wide and height < 21,
        "-short": height < 30,
    }


def is_tiny(width: int, height: int) -> bool:
    """Whether a terminal is too small for anything but a line of text."""
    return width < SMALLEST[0] or height < SMALLEST[1]
