"""Shows a run on whatever is there: the app on a terminal, text anywhere else."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def can_draw() -> bool:
    """Whether standard input and output are a terminal that the app can draw on."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")


def view(target: str, *, output: Path | None = None) -> int:
    """Open `target` (a run id, its beginning, or a folder) and return the exit code of the viewer.

    `output` is where the job's own output goes; the screen names it. Without a terminal an overview is printed.
    """
    if can_draw():
        from ntstop.tui.app import run_app

        return run_app(target, output_path=str(output) if output else None)
    from ntstop.plain import print_overview

    return print_overview(target)
