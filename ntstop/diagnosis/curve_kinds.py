"""The kinds of findings that are read off a loss curve; several rules tell them."""

from __future__ import annotations

from typing import Final

from .catalogue import Area, kind

AREA: Final[Area] = "update/memory/step profile"
"""Where to look when one of them is open."""

kind(
    "loss-spike",
    "optimization",
    AREA,
    meaning="The loss jumped up for several points: it came back by itself (recovered), or has not (lingering).",
    detector="Log loss (plain differences once a loss was not above 0) against the median and the noise of 64 points, "
    "frozen while it lasts; several points in a row. Quiet after a restart of the learning rate and a resume.",
    severity="info; warning when it lingers, or while the learning rate still rises in its warm-up.",
)
kind(
    "divergence",
    "optimization",
    AREA,
    meaning="The loss is lost: it exploded, is worse than at the start, lost most of its descent, or rose and stays. "
    "Or it is about to be: it swings about its level, further with every swing.",
    detector="Points against a line over the initial loss and over the lowest level; the last stretch of block means "
    "against the best stretch; the validation loss, when the training loss rose with it. A wave that grows, fitted to "
    "windows of 32 points or block means.",
    severity="critical above the start and at an explosion; warning when it fell back, and for swings.",
)
kind(
    "plateau",
    "optimization",
    AREA,
    meaning="The descent has stopped: the loss has been flat for half of the run, or is the same to the last bit.",
    detector="Theil-Sen slope over block means of the last half; both ends of its 95 % interval must be small against "
    "the whole descent and the level. Or 32 equal points in a row, where points used to differ.",
    severity="warning when the learning rate is known, high, and the run is not at its end; else info.",
)
kind(
    "never-learned",
    "optimization",
    AREA,
    meaning="The loss is still where it began, or higher.",
    detector="The best eighth of the run, and its last quarter, against the initial loss.",
    severity="warning.",
)
