"""The short way through a step that is not timed: its boundaries and losses, and where the loop stands.

A loop of a millisecond a step is timed in one of k steps only. In the others nothing is booked; a step that turns out
not to be ordinary (an evaluation, another loader, a closure, a phase of the user's) goes on the long way.
"""

from __future__ import annotations

from collections.abc import Hashable

from .fetches import BACKWARD, FETCH, OPTIMIZER
from .ledger import MAX_LOSSES
from .readings import Reading
from .steps import MAX_REPEATS, StepMachine


class TrainingMachine(StepMachine):
    """A `StepMachine` with a second set of events, to be used while `light` is set. Nothing is on its stack then."""

    __slots__ = ()

    def next_light(self, now: float, iterator: Hashable, grad_enabled: bool) -> bool:
        """As `next_begin`, in a light step. False: the long way is to be gone."""
        if iterator is not self._visits.trained or not grad_enabled:
            self._leave_light(now)
            return False
        if self._optimizers:
            self._close(now, whole=True)
            if self.timed:
                self.light = False
                self._at = now
                self._gap = 0.0
                return False
        self._depth = 0
        progress = self._progress
        progress.phase = FETCH
        progress.since = now
        return True

    def backward_light(self, now: float, loss: Reading) -> None:
        """As `backward_begin`."""
        self._use_batch()
        self._tail_losses.append(loss)
        self._tail_micro += 1
        self._depth = 0
        progress = self._progress
        progress.phase = BACKWARD
        progress.since = now

    def optimizer_light(self, now: float, optimizer: Hashable) -> None:
        """As `optimizer_begin`, without a closure."""
        self._depth += 1
        if self._depth > 1:
            return
        if optimizer in self._stepped:
            self._repeats += 1
            if not self.loader or self._repeats > MAX_REPEATS:
                self.loader = False
                self._close(self._cut, whole=False)
                # The schedule may have changed just now: the beginning of this step has gone by.
                self.timed = False
        self._optimizer = optimizer
        progress = self._progress
        progress.phase = OPTIMIZER
        progress.since = now

    def optimizer_light_end(self, now: float, lrs: list[float | None] | None) -> None:
        """As `optimizer_end`."""
        self._depth -= 1
        if self._depth > 0:
            return
        self._depth = 0
        if lrs and self._optimizers < MAX_LOSSES:
            self._name_lrs(lrs)
        self._count_step(now, self._optimizer)
        if not self.loader and not self._next_is_light():
            self.light = False
            self._at = now
            self._gap = 0.0
        progress = self._progress
        progress.phase = "other" if self.loader else "input+forward"
        progress.since = now
