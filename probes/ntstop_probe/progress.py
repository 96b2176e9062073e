"""Where the training thread stands, in plain attributes that any thread may read without a lock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol


class Modes(Protocol):
    """The models that are trained, as far as it matters that they are in training mode."""

    sensitive: int
    """Modules that do something else in evaluation mode: dropout, batch norm."""

    def evaluating(self) -> bool | None:
        """Whether all of the models are in evaluation mode; None: they are gone."""


def _none() -> int:
    return 0


def _nothing() -> Mapping[str, object]:
    return {}


@dataclass(slots=True)
class Progress:
    """Written by the training thread only, one attribute at a time, which the interpreter does atomically."""

    phase: str = "start"
    since: float = field(default_factory=time.monotonic)
    """Monotonic seconds at which the phase began."""
    steps: int = 0
    """Steps finished: the ordinal of the step that is open."""
    step: int | None = None
    """The job's own global step, when known."""
    thread: int = field(default_factory=threading.get_ident)
    """Ident of the training thread."""
    cost: float = 0.0
    """Seconds the probe has spent on the training thread, in all."""
    setup: float = 0.0
    """Of these, what was spent once: to find the names of the layers when an optimizer takes its first step."""
    step_time: float | None = None
    """Seconds, smoothed over the last steps."""
    layer_interval: int | None = None
    """Steps from one layer sample to the next; None: layers are not sampled."""
    ratio_interval: int | None = None
    """Likewise for update ratios."""
    timing_interval: int = 1
    """Steps from one whose phases are timed to the next."""
    tier: str = "full"
    """How much has been shed, in the words of `hooks.budget`."""
    saw_torch: bool = False
    saw_backward: bool = False
    saw_optimizer: bool = False
    saw_loader: bool = False
    pending: Callable[[], int] = _none
    """Backward passes since the last optimizer step; may be asked from any thread."""
    trained: Callable[[], Mapping[str, object]] = _nothing
    """The attributes of the loader's iterator that is trained on, while there is one; may be asked from any thread."""
    modes: Modes | None = None
    disabled: list[str] = field(default_factory=list)
    """Parts of the probe that failed and switched themselves off, each "name: reason"."""

    def enter(self, phase: str, now: float) -> None:
        """The training thread is in `phase` since `now` (monotonic seconds)."""
        self.phase = phase
        self.since = now
