"""Follow the libraries that the job uses: what it logs, its own steps, its evaluations and its checkpoints."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..arrivals import Arrivals
from . import checkpoints, scalars, trainers
from .job import Job
from .table import PATCHES, Patched

if TYPE_CHECKING:
    from ..core import Probe

WRAPPERS: dict[str, Callable[[Job, str, Any], Any]] = {
    **scalars.WRAPPERS,
    **trainers.WRAPPERS,
    **checkpoints.WRAPPERS,
}
"""By the names in the table: (job, part, original) -> what stands in its place."""


class Integrations:
    """Of one probe. Patches each library of the table once the job has imported it; imports none."""

    def __init__(self, probe: Probe) -> None:
        self._patched = Patched()
        self._job = Job(probe, self._patched)
        self._arrivals = Arrivals(dict.fromkeys(patch.module for patch in PATCHES), self._arrived)

    def start(self) -> None:
        """Patch what is there already, and wait for the rest."""
        self._arrivals.start()

    def look_again(self) -> None:
        """The job has begun to train: what it was importing when we came is there by now."""
        self._arrivals.again()

    def stop(self) -> None:
        """Undo everything; wrappers that somebody kept only pass calls through. Also right in a forked child."""
        self._job.active = False
        self._arrivals.stop()
        for part in self._patched.parts:
            self._patched.put_back(part)

    @property
    def missing(self) -> list[str]:
        """Places of the table that the job's version of a library does not have."""
        return self._patched.missing

    def _arrived(self, module: str) -> None:
        for patch in PATCHES:
            if patch.module == module and self._job.is_on(patch.part):
                self._patched.apply(patch, functools.partial(WRAPPERS[patch.wrapper], self._job, patch.part))
